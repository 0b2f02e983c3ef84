"""How the API calls of a framework are run a second time."""
