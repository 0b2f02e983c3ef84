"""Task `acc_check`: calls held to float64 while the training runs, within a time budget of each step."""
