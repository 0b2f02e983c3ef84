"""What depends on the framework: how a forward is seen, random functions, settings."""
