"""Floor 0: what every room stands on; knows no framework."""
