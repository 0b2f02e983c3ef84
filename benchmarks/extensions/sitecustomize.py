"""Imported at the start of every Python that has this folder on its path: makes the import of some modules fail."""

import os
import sys

for name in os.environ.get("MSPROBE_BENCHMARK_WITHOUT", "").split():
    sys.modules[name] = None  # an ImportError for whoever imports it
