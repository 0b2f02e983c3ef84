"""Which dumps of two sides meet, one job each, and the one answer of all."""
