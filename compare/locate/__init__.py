"""Which call is the first wrong one."""
