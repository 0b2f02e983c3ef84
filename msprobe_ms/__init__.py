"""msprobe-ms: a numerical-precision debugger for training with MindSpore.

A training imports `msprobe.mindspore`; everything else is a command (`msprobe -h`). Importing this patches nothing.
"""

from msprobe.base import neighbour

neighbour.warn()
