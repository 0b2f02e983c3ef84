"""Compares the configurations of two runs, as `config_check` packs them."""
