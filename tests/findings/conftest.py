"""The modules of this folder stand beside each other."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
