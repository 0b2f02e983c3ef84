"""Recorded calls executed again in float64, and the residual of what was recorded: `replay.replay`."""
