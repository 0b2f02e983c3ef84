"""Modules that several test folders share: runs and trainings made by hand."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parent / "checks", HERE.parent / "diagnose", HERE.parent / "compare/monitor"):
    sys.path.append(str(folder))
