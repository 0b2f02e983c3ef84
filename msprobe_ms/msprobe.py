"""`python -m msprobe.msprobe` and `msprobe.msprobe:main`, where msprobe has its command."""

import sys

from msprobe.cli import main

if __name__ == "__main__":
    sys.exit(main())
