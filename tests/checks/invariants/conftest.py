"""The files of this folder stand beside each other: one imports another."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
