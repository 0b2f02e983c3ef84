"""The training monitor: a few numbers of every parameter, gradient and activation at every optimizer step."""
