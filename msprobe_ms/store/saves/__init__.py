"""Read folders of tensors that were saved by name: `graph_saves` (graphs and npy files), `single_saves`
(`SingleSave`)."""
