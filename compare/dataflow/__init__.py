"""The dataflow graph of one dump: `graph`; and the calls of two dumps in execution order: `events`."""
