"""Suggestions for a first wrong call: `known_causes` has the rules, `defaults` the defaults in which frameworks
differ."""
