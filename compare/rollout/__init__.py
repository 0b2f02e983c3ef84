"""Log-probs of generation against those that training computed again: how far apart, and why."""
