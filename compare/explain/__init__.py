"""Why one call has its verdicts, for `--explain` and the page: `decision` is the rule that decided one pair of records,
`chain` relates the records of a call to others, `text` prints them, and `command` runs `--explain`."""
