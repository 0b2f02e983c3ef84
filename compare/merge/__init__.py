"""Tables of several ranks side by side, for the calls that a user names."""
