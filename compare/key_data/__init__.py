"""`SingleComparator`: compares the key data of two runs. `pairs` matches and measures, `comparator` writes the
sheets."""
