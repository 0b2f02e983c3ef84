"""Add source lines from the text of a graph to the values of a kernel dump."""
