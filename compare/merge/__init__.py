"""Merge comparison tables of several ranks for the calls that the user selects: `merge`; `tables` reads them."""
