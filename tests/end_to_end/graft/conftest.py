"""What the tests of both frameworks share stands next to them; the trainings are those of the gate."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
