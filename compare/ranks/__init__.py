"""Where a difference begins first among several ranks, by who communicated with whom."""
