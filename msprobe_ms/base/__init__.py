"""The lowest layer, which all other packages import. Imports no framework.

Settings: `settings`, `sections`, `setting`, `checks`, `scope`. Values: `nested`, `framework`, `statistic`, `brief`,
`digest`, `finite`. Replacing functions of a framework: `patches`, `in_place`. Secrets: `redaction`. Text: `log`,
`phrase`, `errors`, `names`. Files: `files`.
"""
