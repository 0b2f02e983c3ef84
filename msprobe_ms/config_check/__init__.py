"""Packs the configuration of a run: environment, packages, settings, data, weights, random calls, the framework's."""
