"""Write the output of a monitor into an SQLite database, for queries and for msprobe's trend page.

  msprobe data2db --db DIR --data MONITOR_DIR

MONITOR_DIR is the output of TrainerMon, TrainerMonitorV2 or grad_probe. The database is DIR/monitor_data.trend.db. Exit
code: 0 done, 2 the command was wrong.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.checks import flag
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.files import MAX_CONFIGURATION_BYTES, read_input
from msprobe.base.log import logger, terminal_line
from msprobe.options.declaration import option
from msprobe.options.groups import JsonAnswer
from msprobe.options.kinds import PATH, Kind, one_of, whole
from msprobe.store.monitor.reader import read_output

from .database import write_database

FORMATS = ("auto", "dump", "monitor")


def _switch(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise SettingsError(f"{text} is invalid; give true or false")
    return text.lower() == "true"


_TRUE_OR_FALSE = Kind("true|false", flag, _switch, words=lambda flag, value: [flag, str(value).lower()])


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    db: Path = option(
        PATH, "--db", metavar="DIR", required=True, help="folder for the database", zh="数据库所在的文件夹"
    )
    data: Path = option(
        PATH, "--data", metavar="MONITOR_DIR", required=True, help="the output of a monitor", zh="监控的输出"
    )
    format: str = option(
        one_of(*FORMATS),
        "--format",
        default="auto",
        help="kind of the input; dump is not available in this version",
        zh="输入的种类；本版本不支持 dump",
    )
    mapping: Path | None = option(
        PATH,
        "--mapping",
        metavar="JSON",
        help='new names for modules: {"net.layers": "layers"}',
        zh='模块的别名：{"net.layers": "layers"}',
    )
    micro_step: bool = option(
        _TRUE_OR_FALSE,
        "--micro-step",
        default=True,
        help="each micro step is a step; default: true",
        zh="每个 micro step 作为一个 step；默认：true",
    )
    process_num: int = option(
        whole(),
        "--process-num",
        default=1,
        hidden=True,
        help="accepted for compatibility; one process is used",
        zh="为兼容而保留；只使用一个进程",
    )


def run(options: Options) -> int:
    """Read, write, and print the path of the database."""
    if options.format == "dump":
        raise UsageError(
            "--format dump: this version cannot convert a dump into a database; use `msprobe compare --format "
            "csv` for tables"
        )
    names = _mapping(options.mapping) if options.mapping else {}
    output = read_output(options.data)
    for note in output.notes:
        logger.warning("%s", note)
    database = write_database(output, options.db, options.micro_step, names)
    if options.is_json:
        from msprobe.base.verdicts import Verdicts
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer

        answer = Answer("shown", str(database), notes=tuple(map(str, output.notes)))
        printed(Document("data2db", answer, Verdicts(), 0, files={"database": database}))
        return 0
    print(terminal_line(str(database)))
    return 0


def _mapping(path: Path) -> dict[str, str]:
    try:
        names = json.loads(read_input(path, MAX_CONFIGURATION_BYTES).decode("utf-8-sig"))
    except OSError as err:
        raise UsageError(f"--mapping {path}: cannot be read ({err.strerror or err}); check the path") from err
    except (ValueError, RecursionError) as err:
        raise UsageError(f"--mapping {path}: is not valid JSON ({err}); give an object of names") from err
    if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
        raise UsageError(f'--mapping {path}: is not an object of names; write {{"net.layers": "layers"}}')
    return names
