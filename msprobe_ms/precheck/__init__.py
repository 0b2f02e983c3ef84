"""Single APIs against float64: `msprobe acc-check`, scripts that reproduce one call, two devices side by side."""
