"""Find the first wrong call, and the divergences after it.

Read `finding` (divergences as data), `find` (one pass over all calls), `cause` (why an input differs),
`random_numbers`, then `exemptions` and `user_limits`, which change verdicts before that pass. `wording` has the
sentences.
"""
