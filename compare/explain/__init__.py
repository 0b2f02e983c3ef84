"""Why one call has its verdicts, for `--explain`: `chain` relates the records of a call, each with the `Decision` that
`judge.decision` has for it, to others, `text` prints them, and `command` runs it."""
