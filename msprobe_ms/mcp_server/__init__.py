"""A server of the Model Context Protocol: commands as tools with typed parameters, for coding agents.

Read `tools` first, which has every tool as a plain function with the docstring that an agent reads. `commands` runs a
command in a process and returns its document, `calls` and `runs` read dumps, `server` offers the tools over standard
input and output, and `verb` is `msprobe mcp`. Only `server` imports the library `mcp`.
"""
