"""One step of one rank, as a report holds it: layout, state, details, and where differences begin."""
