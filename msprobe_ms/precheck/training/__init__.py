"""Task `acc_check`: compares calls with float64 while the training runs, within a time budget of each step."""
