"""Whether a training can be collected here, asked before it begins: what is installed, where it writes, what is set."""
