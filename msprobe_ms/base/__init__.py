"""The lowest layer, which every other package imports; it imports no framework."""
