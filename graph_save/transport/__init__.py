"""Operators that send the calls of a running graph: `native` in C, `callback` in Python, `tensordump` by files.

`reports` receives them and passes them to the recorder (`graph_save.calls`).
"""
