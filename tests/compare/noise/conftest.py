"""The files of this folder share networks: one imports them from another."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
