"""The network of one dump, or of two that were compared, as files that msprobe's TensorBoard plugin opens."""
