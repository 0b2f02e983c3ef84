"""Reads a JSON configuration file into a dictionary, and says what is wrong with one that cannot be read.

Every path that the operating system opens is good: spaces, any script, symbolic links.
"""

import errno
import json
import os
from collections.abc import Container
from typing import NoReturn

from .checks import absolute, listed, shown
from .errors import SettingsError
from .files import CONFIGURATION, read_input

_MONITOR = ("wg_distribution", "xy_distribution", "mv_distribution", "param_distribution", "ops")

OTHER_FILES = (
    (("npu_path", "bench_path", "target_path", "golden_path"), "a comparison's file", "'msprobe compare -i'"),
    (_MONITOR, "a monitor's configuration", "msprobe's TrainerMon, which this version does not have"),
    (("common_dump_settings", "e2e_dump_settings"), "MindSpore's own dump configuration", "MINDSPORE_DUMP_CONFIG"),
    (("framework", "dump_data_dir"), "a dump.json, which a run wrote", "'msprobe compare'"),
)
"""Keys of other tools' files, what such a file is, and who takes it."""


_JSON = "JSON has neither comments nor a comma before a closing bracket, and texts and keys stand in double quotes"


def read(path: object) -> dict[str, object]:
    """The top-level object of a JSON file; a byte order mark is accepted, a key that stands twice is not."""
    if not isinstance(path, str | os.PathLike):
        raise SettingsError(
            f"config_path is {shown(path)}, which is not a path; pass the path of a .json file, or None"
        )
    where = os.path.expanduser(os.fspath(path))
    if not os.path.exists(where):
        here = str(absolute(where)).removesuffix(where).rstrip("/")  # of a relative path, the working directory
        raise SettingsError(
            f"{where}: there is no such file; correct config_path{f' (working directory: {here})' * bool(here)}"
        )
    if not os.path.isfile(where):
        raise SettingsError(f"{where}: this is not a file; let config_path name a .json file")
    if not str(where).endswith(".json"):
        raise SettingsError(f"{where}: the name does not end in .json; rename the file if it holds JSON")
    try:
        text = read_input(where, CONFIGURATION).decode("utf-8-sig")
    except OSError as err:
        remedy = "write a smaller one" if err.errno == errno.EFBIG else "give this user the right to read it"
        raise SettingsError(f"{where}: cannot be read ({err.strerror or err}); {remedy}") from err
    except UnicodeDecodeError as err:
        raise SettingsError(f"{where}: byte {err.start} is not UTF-8; save the file in UTF-8") from err
    return _top(text, where)


def _top(text: str, where: object) -> dict[str, object]:
    def pairs(found: list[tuple[str, object]]) -> dict[str, object]:
        made = dict(found)
        if len(made) < len(found):
            twice = next(key for number, (key, _) in enumerate(found) if key in dict(found[:number]))
            raise SettingsError(f"{where}: {shown(twice)} stands twice in one object; remove one")
        return made

    def broken(place: str, what: str) -> NoReturn:
        raise SettingsError(f"{where}{place}: this is not JSON ({what}); correct it there")

    try:
        top = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as err:
        broken(f", line {err.lineno}, column {err.colno}", f"{err.msg}; {_JSON}")
    except RecursionError:
        broken("", "too many brackets inside each other")
    except ValueError:  # the one other thing that Python cannot read
        broken("", "a number of thousands of digits")
    if not isinstance(top, dict):
        raise SettingsError(f"{where}: the file holds a {type(top).__name__}; write one object, {{...}}")
    return top


def other_file(keys: Container[str]) -> str:
    """What a file with such keys looks like, and who takes it; empty where no other tool is known for them."""
    for marks, what, taker in OTHER_FILES:
        if found := [key for key in marks if key in keys]:
            return f"this looks like {what} (it has {listed(tuple(found))}); give it to {taker}"
    return ""
