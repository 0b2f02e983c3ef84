"""`msprobe compare --explain CALL`: why one call has its verdicts. Read `chain`, then `text`; `command` runs it."""
