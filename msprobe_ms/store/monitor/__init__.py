"""The files of a monitor: where they are, how they are written and read."""
