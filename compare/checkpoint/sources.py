"""Read the checkpoints in a path: one, or one for each rank."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input
from msprobe.base.log import logger
from msprobe.store.folders import by_number, look
from msprobe.store.reader import json_object

from .ckpt import read_ckpt
from .formats import Checkpoint, Framework, Parameter, read_pt, read_safetensors
from .megatron import iteration_of, read_megatron

_READERS = {
    ".ckpt": read_ckpt,
    ".safetensors": read_safetensors,
    **dict.fromkeys((".pt", ".pth", ".bin"), read_pt),
}
_RANK = re.compile(r"rank_?(\d{1,9})")
_STEP = re.compile(r"(.*?)(?:_(\d+))?-(\d+)_(\d+)")  # prefix, run, epoch, step: MindSpore's CheckpointConfig
_SHARD = re.compile(r"(.+?)[-_]?\d+-of-(\d+)|part\d+")
_INDEX = ".index.json"
_MAP = "param_name_map.json"
_OTHER_FILES = ("training_args.bin", "scheduler.pt", "optimizer.pt", "optimizer.bin", "rng_state.pth", "scheduler.bin")
"""Files that trainers write next to those of the model."""


@dataclass(frozen=True)
class Side:
    """One side of a comparison: its checkpoints by rank, under an empty name if there are no ranks."""

    where: str
    ranks: Mapping[str, Checkpoint]


def read_side(path: Path) -> Side:
    """Return the checkpoints at a path.

    | content | read as |
    |---|---|
    | `.ckpt`, `.safetensors`, `.pt`, `.pth`, `.bin` | one file; a `.ckpt` is MindSpore's or PyTorch's |
    | a folder with `*.index.json` or `param_name_map.json` | the files in it, together |
    | a folder with files `model-00001-of-00003.*`, `part0.safetensors` | those files together |
    | a folder of Megatron-LM, or of one of its iterations | the whole model |
    | a folder with `rank_0`, `rank_1`, ... | each separately |
    | a folder with `net-1_10.ckpt`, `net-2_10.ckpt`, ... | the last epoch and step |

    Raise a DumpError if there is none of these, or a file is broken.
    """
    if path.is_file():
        return Side(str(path), {"": _read(path)})
    if not path.is_dir():
        raise DumpError(f"{path}: no such file or folder; give a checkpoint")
    ranks = {name: m[1] for name in look(path, follow=True).folders if (m := _RANK.fullmatch(name))}
    ranks = {name: number for name, number in ranks.items() if _files(path / name)}
    if ranks:
        found = {f"rank_{int(ranks[name])}": _of_folder(path / name) for name in sorted(ranks, key=by_number)}
        return Side(str(path), found)
    return Side(str(path), {"": _of_folder(path)})


def _read(path: Path) -> Checkpoint:
    reader = _READERS.get(path.suffix)
    if reader is None:
        raise DumpError(f"{path}: is not one of {', '.join(_READERS)}; give a checkpoint")
    if reader is read_ckpt:
        try:
            with open_input(path) as file:
                if file.read(4) == b"PK\x03\x04":  # a zip archive: some PyTorch trainers also use the suffix `.ckpt`
                    return read_pt(path)
        except OSError:
            pass  # reported by the reader
    return reader(path)


def _files(folder: Path) -> list[str]:
    return [name for name in look(folder).files if Path(name).suffix in _READERS and name not in _OTHER_FILES]


def _of_folder(folder: Path) -> Checkpoint:
    if chosen := iteration_of(folder):
        return read_megatron(chosen)
    held = look(folder).files
    index = [name for name in held if name.endswith(_INDEX) or name == _MAP]
    if index:
        return _of_index(folder, sorted(index, key=lambda name: "safetensors" not in name)[0])
    files = _files(folder)
    if not files:
        raise DumpError(f"{folder}: contains no checkpoint ({', '.join(_READERS)}); give the file, or its folder")
    if len(files) == 1:
        return _read(folder / files[0])
    if all(_SHARD.fullmatch(Path(name).stem) for name in files):
        return _together(folder, files)
    return _read(folder / _newest(folder, files))


def _of_index(folder: Path, name: str) -> Checkpoint:
    """Return the shards in an index, which is used only for the file of each parameter."""
    index = json_object(folder / name)
    weights = index.get("weight_map", index)
    if not isinstance(weights, dict) or not all(isinstance(file, str) for file in weights.values()):
        raise DumpError(f"{folder / name}: has no weight_map of names and files; give a folder with an index")
    files = sorted(set(weights.values()))
    if stray := [file for file in files if Path(file).name != file]:
        raise DumpError(
            f"{folder / name}: refers to {stray[0]!r}, which is not a file in the same folder; such paths are not "
            "followed"
        )
    found = _together(folder, files, weights)
    if lacking := [one for one in weights if one not in found.parameters]:
        raise DumpError(f"{folder / name}: refers to {lacking[0]}, which is in none of its files; copy all files again")
    return found


def _together(folder: Path, files: list[str], recorded: Mapping[str, str] | None = None) -> Checkpoint:
    """Return the parameters of all files. If two have one name, that of the `recorded` file is used; raise a DumpError
    if there is none."""
    recorded = recorded or {}
    parameters: dict[str, Parameter] = {}
    file_of: dict[str, str] = {}
    framework: Framework = ""
    for file in sorted(files, key=by_number):
        found = _read(folder / file)
        for name, one in found.parameters.items():
            other = file_of.get(name)
            if other is not None and recorded.get(name) not in (file, other):
                raise DumpError(
                    f"{folder}: both {other} and {file} contain {name}; give the folder of one checkpoint whose "
                    "shards contain each parameter once"
                )
            if other is None or recorded.get(name) == file:
                parameters[name], file_of[name] = one, file
        framework = framework or found.framework
    return Checkpoint(str(folder), framework, parameters)


def _newest(folder: Path, files: list[str]) -> str:
    """Return, of the checkpoints of one training, the one of the last epoch and step."""
    entry = {name: m for name in files if (m := _STEP.fullmatch(Path(name).stem))}
    prefixes = {m[1] for m in entry.values()}
    if len(entry) != len(files) or len(prefixes) != 1:
        raise DumpError(f"{folder}: contains several checkpoints ({', '.join(files[:8])}); give one of the files")
    chosen = max(files, key=lambda name: [int(number or 0) for number in entry[name].groups()[1:]])
    logger.info("%s: the last of %d checkpoints is compared, %s", folder, len(files), chosen)
    return chosen
