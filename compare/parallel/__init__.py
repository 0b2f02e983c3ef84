"""The dumps of ranks that share one model out (tensor and pipeline parallelism), merged into dumps of it."""
