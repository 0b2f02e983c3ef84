"""`python -m msprobe`: the same as the command `msprobe`."""

import sys

from msprobe.cli import main

if __name__ == "__main__":
    sys.exit(main())
