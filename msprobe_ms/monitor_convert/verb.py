"""Write what a monitor collected into a database of SQLite, for queries and for msprobe's trend page.

  msprobe data2db --db DIR --data MONITOR_DIR

MONITOR_DIR is the output of TrainerMon, TrainerMonitorV2 or grad_probe. The database is DIR/monitor_data.trend.db.
Exit code: 0 done, 2 the command was wrong.
"""

import argparse
import json
from pathlib import Path

from msprobe.base.errors import UsageError
from msprobe.base.files import CONFIGURATION, read_input
from msprobe.base.log import logger, visible
from msprobe.store.monitor.reader import read_output

from .database import write_database

FORMATS = ("auto", "dump", "monitor")


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--db", required=True, metavar="DIR", help="the folder for the database")
    parser.add_argument("--data", required=True, metavar="MONITOR_DIR", help="the output of a monitor")
    parser.add_argument("--format", choices=FORMATS, default="auto", help="dump: not available in this version")
    parser.add_argument("--mapping", metavar="JSON", help='other names for modules: {"net.layers": "layers"}')
    parser.add_argument(
        "--micro_step", type=_switch, default=True, metavar="true|false", help="each micro step is a step (default)"
    )
    parser.add_argument("--process_num", type=int, default=1, metavar="N", help="accepted; one process is used")


def run(args: argparse.Namespace) -> int:
    """Read, write, and print the path of the database."""
    if args.format == "dump":
        raise UsageError(
            "--format dump: this version writes no database of a dump; `msprobe compare --format csv` writes tables"
        )
    names = _mapping(Path(args.mapping)) if args.mapping else {}
    output = read_output(Path(args.data))
    for note in output.notes:
        logger.warning("%s", note)
    print(visible(str(write_database(output, Path(args.db), args.micro_step, names))))
    return 0


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")
    return text.lower() == "true"


def _mapping(path: Path) -> dict[str, str]:
    try:
        names = json.loads(read_input(path, CONFIGURATION).decode("utf-8-sig"))
    except OSError as err:
        raise UsageError(f"--mapping {path}: cannot be read ({err.strerror or err}); check the path") from err
    except (ValueError, RecursionError) as err:
        raise UsageError(f"--mapping {path}: is no JSON ({err}); give an object of names") from err
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise UsageError(f'--mapping {path}: is no object of names; write {{"net.layers": "layers"}}')
    return names
