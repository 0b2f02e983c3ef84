"""The places where msprobe has the tools of its training monitor."""
