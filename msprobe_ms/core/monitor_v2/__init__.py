"""The module path of msprobe 26 for its second monitor."""
