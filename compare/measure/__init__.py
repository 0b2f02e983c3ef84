"""What lies between two tensors, or their statistics, in numbers. Nothing is judged here."""
