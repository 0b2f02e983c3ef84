"""The dumps of ranks that share one model out (tensor, pipeline, virtual pipeline parallelism), merged into dumps of it."""
