"""Findings of all commands: their kinds, and their renderers in English and Chinese.

Read `kind` (the fields of a kind) and `catalogue/` (all kinds) first, then `finding` (findings, places and answers as
data) and the renderers `text` (console), `document` (JSON) and `notebook`; the report page has its templates from
`texts`. `chinese/` has the messages that do not belong to a kind.
"""
