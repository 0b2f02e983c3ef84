"""The values of a kernel dump beside the lines of source that a graph's text has for them."""
