"""Which call of one framework's dump is which call of the other's, found without names."""
