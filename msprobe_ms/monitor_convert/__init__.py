"""What a monitor wrote, for other tools: TensorBoard and a database."""
