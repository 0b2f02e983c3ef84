"""`python -m msprobe.pytorch.monitor.anomaly_analyse`, as in msprobe 1.1 to 1.3; now `anomaly_processor`."""

import sys

from msprobe.base.log import log_once
from msprobe.monitor import anomaly_verb

if __name__ == "__main__":
    old, new = "msprobe.pytorch.monitor.anomaly_analyse", "msprobe.core.monitor.anomaly_processor"
    log_once(f"deprecated: {old}", f"python -m {old} is deprecated; use python -m {new}")
    sys.exit(anomaly_verb.main(f"python -m {old}"))
