"""Find the first call that differs among all ranks.

Read `collectives` (which calls of several ranks are one exchange), then `search`; `stretches` finds the earliest
position from digests.
"""
