"""Compare the log-probs of generation with those recomputed by training, and find the cause of a difference.

Read `read` and `side` (the inputs), `alignment` (samples and tokens), `case` (statistics for the detectors), the
detectors (`mask_detectors`, `token_detectors`, `value_detectors`), then `diagnosis` (the verdict). `entry` is the
Python interface.
"""
