"""Module paths of `SingleSave` and `SingleComparator` in msprobe."""
