"""Which differences are noise: each call judged on its own inputs, along the dataflow (explanation/noise.md)."""
