"""`python -m msprobe.msprobe` and `msprobe.msprobe:main`, the paths of the command in msprobe."""

import sys

from msprobe.cli import main

if __name__ == "__main__":
    sys.exit(main())
