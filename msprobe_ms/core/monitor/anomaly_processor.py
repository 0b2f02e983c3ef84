"""`python -m msprobe.core.monitor.anomaly_processor -d DIR`, as in msprobe 8.1: the earliest anomalies of all ranks."""

import sys

from msprobe.monitor import anomaly_verb


def main() -> int:
    """Run the command line, and return the exit code."""
    return anomaly_verb.main("python -m msprobe.core.monitor.anomaly_processor")


if __name__ == "__main__":
    sys.exit(main())
