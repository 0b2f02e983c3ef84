"""The reference: calls executed in float64 by torch on the CPU. Importing a module of this folder imports torch."""
