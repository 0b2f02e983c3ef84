"""The tensors of a columnar dump in one file (`reference/format.md`, page 13)."""
