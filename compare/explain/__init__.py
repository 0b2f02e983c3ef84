"""The chain of one call, for `--explain`: `command` runs it, `chain` collects states, rules and numbers, `text` prints
them."""
