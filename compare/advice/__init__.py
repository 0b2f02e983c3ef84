"""Suggestions for a first wrong call: `known_causes` has the rules, `defaults` the defaults of the frameworks."""
