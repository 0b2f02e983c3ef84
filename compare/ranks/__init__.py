"""Where a difference begins first among several ranks, told by who communicated with whom."""
