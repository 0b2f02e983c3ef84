"""Measures between two tensors, or between their statistics. Judges nothing.

Read `tensors` (the measures of two arrays), `block` (one block of them, in C or numpy), `files` (pairs of files, in
several processes) and `statistics`. `symmetric` measures key data.
"""
