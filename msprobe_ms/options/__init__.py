"""Options of commands, each declared once: the parser, the help, Python keywords, request files and the tables of the
documentation come from the declaration.

A command has a frozen dataclass that inherits from groups of options and adds its own:

    @dataclass(frozen=True, kw_only=True)
    class Options(Selection, Workers):
        dump: Path = positional(PATH, "DIR", help="the dump to check", zh="要检查的 dump")

Read `declaration` first, then `kinds` (how a value is written), `groups` (options of several commands) and `parser`.
"""
