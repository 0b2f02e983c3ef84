"""The frameworks behind the collector's interface, one package each."""
