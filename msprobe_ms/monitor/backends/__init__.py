"""What the monitor needs of a framework."""
