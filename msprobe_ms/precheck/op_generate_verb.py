"""Write a standalone script that runs one API of a dump, as msprobe 8.1 does.

  msprobe op-generate -i config_op.json -o DIR

The script runs without this tool, compares the outputs with float64 results, and writes two tables into
./op_result_output. `msprobe repro` does the same without a configuration. Exit code: 0 written, 2 nothing was written.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from msprobe.base.checks import nearest
from msprobe.base.errors import SettingsError, UsageError
from msprobe.base.files import read_input, replace_atomically, writing
from msprobe.base.log import terminal_line
from msprobe.options.declaration import option
from msprobe.options.groups import JsonAnswer, output_option
from msprobe.options.kinds import PATH

if TYPE_CHECKING:
    from msprobe.store.record import Dump

_MOST_ITERATIONS = 1000


@dataclass(frozen=True)
class Settings:
    """The keys of config_op.json; `extract_api_path` is where the records of the API alone are written or read."""

    api_name: str = ""
    dump_json_path: str = ""
    extract_api_path: str = ""
    propagation: str = "forward"
    data_mode: str = "random_data"
    random_seed: int = 42
    iter_times: int = 1


@dataclass(frozen=True, kw_only=True)
class Options(JsonAnswer):
    """The options of the command."""

    config_input: Path = option(
        PATH, "-i", "--input", metavar="FILE", required=True, help="config_op.json", zh="config_op.json"
    )
    output: Path = output_option(required=True, help="folder for the script", zh="脚本所在的文件夹")


def run(options: Options) -> int:
    """Write the script, and print where it is."""
    from .generate import place_of, write

    settings = read_settings(options.config_input)
    with TemporaryDirectory() as folder:
        dump = _dump(settings, Path(folder))
        at = place_of(dump, f"{settings.api_name}.{settings.propagation}")
        is_real = settings.data_mode == "real_data"
        if is_real and dump.task not in ("tensor", "acc_check"):
            raise UsageError(f"{dump.where}: contains no tensors (task {dump.task}); set data_mode to random_data")
        seeds: tuple[int | None, ...] = (None,)
        if not is_real:
            seeds = tuple(settings.random_seed + n for n in range(settings.iter_times))
        name = f"{settings.api_name}.{settings.propagation}"
        script, data, _ = write(dump, at, options.output, name=name, seeds=seeds)
    if options.is_json:
        from msprobe.base.verdicts import Verdicts
        from msprobe.findings.document import Document, printed
        from msprobe.findings.finding import Answer

        answer, files = Answer("shown", f"data: {data}"), {"script": script, "data": data}
        printed(Document("op-generate", answer, Verdicts(), 0, files=files))
        return 0
    print(terminal_line(f"script: {script}"))
    print(terminal_line(f"data: {data}"))
    return 0


def read_settings(file: Path) -> Settings:
    """Return the configuration; SettingsError for a key or value that cannot be meant."""
    content = _json(file)
    known = {name: type(value) for name, value in vars(Settings()).items()}
    for key, value in content.items():
        if key not in known:
            near = nearest(key, tuple(known))
            raise SettingsError(f"{file}: unknown key {key!r}" + (f"; did you mean {near}?" if near else ""))
        if type(value) is not known[key]:
            raise SettingsError(f"{file}: {key} is {value!r}; write a value of type {known[key].__name__}")
    made = Settings(**content)
    for key, allowed in (("propagation", ("forward", "backward")), ("data_mode", ("random_data", "real_data"))):
        if getattr(made, key) not in allowed:
            raise SettingsError(f"{file}: {key} is {getattr(made, key)!r}; choose one of {', '.join(allowed)}")
    if not made.api_name:
        raise SettingsError(f"{file}: api_name is missing; give an API of the dump, such as Mint.add.0")
    if not 1 <= made.iter_times <= _MOST_ITERATIONS:
        raise SettingsError(f"{file}: iter_times is {made.iter_times}; choose 1 to {_MOST_ITERATIONS}")
    if not (made.dump_json_path or made.extract_api_path):
        raise SettingsError(f"{file}: give dump_json_path, or extract_api_path of an earlier extract")
    return made


def _json(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(read_input(file))
    except (OSError, ValueError) as err:
        raise SettingsError(f"{file}: cannot be read ({err}); give a JSON file") from err
    if not isinstance(content, dict):
        raise SettingsError(f"{file}: does not contain a JSON object; write one")
    return content


def _dump(settings: Settings, folder: Path) -> "Dump":
    """Return the dump, or what an earlier extract kept of it; the extract is written where a path for it is given."""
    from msprobe.store.reader import find, read

    if settings.dump_json_path:
        file = find(Path(settings.dump_json_path))
        if settings.extract_api_path:
            _extract(file, settings)
        return read(file)
    kept = _json(Path(settings.extract_api_path))
    header = {key: kept.pop(key, "") for key in ("task", "framework", "real_data_path")}
    made = {
        "task": header["task"] or ("tensor" if header["real_data_path"] else "statistics"),
        "level": "L1",
        "framework": header["framework"] or "mindspore",
        "dump_data_dir": header["real_data_path"] or None,
        "data": kept,
    }
    path = folder / "dump.json"
    path.write_text(json.dumps(made))
    return read(path)


def _extract(file: Path, settings: Settings) -> None:
    from msprobe.store.reader import entries_of

    content, data = entries_of(file)
    names = [f"{settings.api_name}.{direction}" for direction in ("forward", "backward")]
    kept = {name: data[name] for name in names if name in data}
    tensors = content.get("dump_data_dir") or str(file.parent / "dump_tensor_data")
    kept |= {
        "task": content.get("task", ""),
        "framework": content.get("framework", ""),
        "real_data_path": tensors if content.get("task") == "tensor" else "",
    }
    out = Path(settings.extract_api_path)
    with writing(out.parent), replace_atomically(out) as stream:
        stream.write(json.dumps(kept, indent=1).encode())
