"""What holds in every correct training, checked in the dumps of one run."""
