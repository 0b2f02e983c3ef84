"""The network as a graph, of one dump or of two that were compared, in the files that msprobe's TensorBoard plugin opens."""
