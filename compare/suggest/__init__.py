"""Suggest mapping files: which call of one framework is which of the other."""
