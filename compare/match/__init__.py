"""Which call and which record of two dumps belong together. Nothing is measured here."""
