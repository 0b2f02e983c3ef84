"""msprobe-ms: a numerical-precision debugger for training with MindSpore."""
