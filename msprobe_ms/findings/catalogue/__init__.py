"""All kinds of findings, a module for each feature; `msprobe explain` prints them."""
