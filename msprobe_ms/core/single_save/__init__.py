"""The places where msprobe has `SingleSave` and `SingleComparator`."""
