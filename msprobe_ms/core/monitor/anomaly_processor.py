"""`python -m msprobe.core.monitor.anomaly_processor -d DIR`, as in msprobe 8.1: the earliest anomalies of all ranks."""

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter

from msprobe.base.errors import MsprobeError
from msprobe.monitor import anomaly_verb


def main() -> int:
    """Run the command line; gives the exit code."""
    parser = ArgumentParser(
        prog="python -m msprobe.core.monitor.anomaly_processor",
        description=anomaly_verb.__doc__,
        formatter_class=RawDescriptionHelpFormatter,
    )
    anomaly_verb.add(parser)
    try:
        return anomaly_verb.run(parser.parse_args())
    except MsprobeError as err:
        parser.exit(2, f"{parser.prog}: {err}\n")


if __name__ == "__main__":
    sys.exit(main())
