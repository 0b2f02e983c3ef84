"""The dataflow of a dump: which call made each tensor, and which calls use it."""
