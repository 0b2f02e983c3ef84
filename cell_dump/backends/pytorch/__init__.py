"""PyTorch behind the collector's interface, `msprobe.cell_dump.framework`."""
