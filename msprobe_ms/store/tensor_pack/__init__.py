"""The tensors of a dump in one file (`reference/format.md`, page 13).

Read `index`, `packed` (reads), `plain` (writes without compression), then `pack` with `chunks` (writes with
compression).
"""
