"""The places where msprobe 8.1 has its functions for comparing."""
