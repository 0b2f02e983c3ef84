"""The tensors of a dump in one file (`reference/format.md`, page 13)."""
