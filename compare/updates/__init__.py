"""Parameters after the first step, judged by their updates: whether noise explains a difference, or which setting."""
