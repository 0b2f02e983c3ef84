"""The place where msprobe has what belongs to its monitor."""
