import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # the modules of this folder import each other
