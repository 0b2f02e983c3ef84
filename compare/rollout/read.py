"""Read the arrays of the command: from files, or from the key data of a run, batch by batch."""

import zipfile
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from msprobe.base.errors import DumpError, UsageError
from msprobe.base.files import open_input
from msprobe.base.memory import available_memory
from msprobe.compare.key_data.pairs import Key, files_by_key, find
from msprobe.store.npy import load_npy
from msprobe.store.reader import tensor_file

from .side import Side, joined, read_numbers, read_side

Array = np.ndarray[Any, Any]


USUAL = {
    "generated": ("generated", "rollout_log_prob", "rollout_log_probs"),
    "recomputed": ("recomputed", "old_log_prob", "old_log_probs"),
    "generated_tokens": ("generated_tokens", "tokens", "responses"),
    "recomputed_tokens": ("recomputed_tokens", "tokens", "responses"),
    "generated_mask": ("generated_mask", "mask", "response_mask"),
    "recomputed_mask": ("recomputed_mask", "mask", "response_mask"),
    "lengths": ("lengths",),
    "prompt_lengths": ("prompt_lengths",),
    "steps": ("steps",),
}
"""Default names of the arrays: first those of this tool, then those that flows in MindSpore and PyTorch use (`log_prob`
is not included: in an update, it may be computed with newer weights)."""

Names = Mapping[str, str | None]
"""The names of the arrays, by the keys of USUAL: keys of an npz, tags of key data, or paths of npy files.

None: the default name, if there is such an array. Empty: no array.
"""


Batches = dict[Key, Path]
"""The files of one tag by step, rank, micro step and id (of keys without their tag)."""


@dataclass(frozen=True, eq=False)
class Inputs:
    """The two sides, data of the samples of generated, and a sentence on each input that was left out."""

    generated: Side
    recomputed: Side
    prompts: Array | None
    steps: Array | None
    lost: Sequence[str] = ()


def read(source: Path | None, names: Names) -> Inputs:
    """Read both sides.

    Raise a UsageError if a name does not exist, or arrays do not fit; a DumpError if a file is broken.
    """
    if source is not None and source.is_dir():
        return _of_run(source, names)
    held = {} if source is None else _npz(source)
    return _inputs(_taken(held, names, source), None)


def _npz(path: Path) -> dict[str, Array]:
    try:
        with open_input(path) as file:
            _check_size(file)
            opened = np.load(file, allow_pickle=False)
            if isinstance(opened, np.ndarray):
                raise UsageError(f"{path}: is a single array; give both with --generated A.npy --recomputed B.npy")
            with opened as packed:
                return {name: packed[name] for name in packed.files}
    except FileNotFoundError as err:
        raise UsageError(f"{path}: does not exist; give an npz file or the folder of a run") from err
    except UsageError:
        raise
    except OSError as err:
        raise DumpError(f"{path}: cannot be read ({err.strerror or err}); write it with numpy.savez") from err
    # zipfile, zlib and numpy's parser of headers raise many types of errors for other data.
    except Exception as err:
        text = " ".join(f"{err or type(err).__name__}".split())
        raise DumpError(f"{path}: cannot be read as npz ({text}); write it with numpy.savez") from err


def _check_size(file: BinaryIO) -> None:
    """Raise a MemoryError for an archive that is larger when unpacked than the available memory; an npy, or another
    file, passes."""
    if zipfile.is_zipfile(file):
        with zipfile.ZipFile(file) as packed:
            if sum(member.file_size for member in packed.infolist()) > available_memory():
                raise MemoryError("its unpacked size exceeds the memory of this machine")
    file.seek(0)


def _taken(held: Mapping[str, Array], names: Names, source: Path | None) -> dict[str, Array]:
    taken = {}
    for option in USUAL:
        name = _chosen(names, option, held)
        if name in held:
            taken[option] = held[name]
        elif name.endswith(".npy"):
            if not Path(name).is_file():
                raise UsageError(f"{name}: does not exist; --{option} takes the path of an npy file")
            taken[option] = load_npy(Path(name))
        elif name:
            where = f"{source} contains {', '.join(sorted(held)) or 'nothing'}" if source else "no npz file is given"
            raise UsageError(f"--{option.replace('_', '-')} {name}: is not an npy file, and {where}")
    return taken


def _chosen(names: Names, option: str, held: Container[str]) -> str:
    """Return the name that was given, or the first default name that exists; "" without any."""
    chosen = names[option]
    return next((name for name in USUAL[option] if name in held), "") if chosen is None else chosen


def _inputs(taken: Mapping[str, Array], step: int | None, where: str = "") -> Inputs:
    """Return one batch. A 1-d array of a run without lengths is one sample."""
    flat = {name: taken[name].reshape(-1) for name in ("prompt_lengths", "lengths") if name in taken}
    prompts, lengths = (read_numbers(name, flat.get(name)) for name in ("prompt_lengths", "lengths"))
    sides = []
    for name in ("generated", "recomputed"):
        parts: list[object] = [taken.get(key) for key in (name, f"{name}_tokens", f"{name}_mask")]
        if step is not None and lengths is None and taken[name].ndim == 1:
            parts = [None if part is None else [part] for part in parts]
        values, tokens, mask = parts
        sides.append(read_side(name + where, values, tokens, mask, lengths, prompts))
    steps = read_numbers("steps", taken.get("steps")) if step is None else np.full(sides[0].count, step)
    if prompts is not None and len(prompts) != sides[0].count:
        raise UsageError(f"prompt_lengths{where}: has {len(prompts)} entries for {sides[0].count} samples")
    return Inputs(sides[0], sides[1], prompts, steps)


def _of_run(root: Path, names: Names) -> Inputs:
    """Return every batch of every step, rank and micro step that both sides have."""
    by_tag: dict[str, Batches] = defaultdict(dict)
    samples: dict[tuple[str, tuple[int, int, int]], Batches] = defaultdict(dict)  # of one micro step
    for spot in find(root).spots:
        for key, file in files_by_key(spot, by_index=True):
            at = key.step, key.rank, key.micro_step
            batch = Key("", *at, key.id)
            by_tag[key.tag][batch] = samples[key.tag, at][batch] = tensor_file(spot.folder.path, file, "")
    wanted = {option: name for option in USUAL if (name := _chosen(names, option, by_tag))}
    for option, name in wanted.items():
        if name not in by_tag:
            flag, found = option.replace("_", "-"), ", ".join(sorted(by_tag))
            raise UsageError(f"--{flag} {name}: {root} has no key data with this name, but {found}")
    for option in ("generated", "recomputed"):
        if option not in wanted:
            raise UsageError(
                f"{root}: contains none of {', '.join(USUAL[option])}; choose the log-probs with --{option}, from "
                f"{', '.join(sorted(by_tag))}"
            )
    generated, recomputed = wanted["generated"], wanted["recomputed"]
    one, other = by_tag[generated], by_tag[recomputed]
    lost, whole = _whole_and_parts(one, other, generated, recomputed)
    places = sorted((set(one) & set(other)) - whole, key=Key.order)
    if not places:
        why = f": {lost[0]}" if lost else ""
        raise UsageError(f"{root}: {generated} and {recomputed} have no common step, rank and micro step{why}")
    batches = []
    for place in places:
        at = place.step, place.rank, place.micro_step
        where = " (step {}, rank {}, micro step {})".format(*at)
        try:
            taken = {
                option: _at(place, samples[name, at], samples[generated, at], name) for option, name in wanted.items()
            }
        except DumpError as err:
            lost.append(f"Not read{where}: {str(err).rstrip('.')}.")
            continue
        batches.append(_inputs(taken, place.step, where))
    unmatched = len((set(one) ^ set(other)) - whole)
    if unmatched:
        lost.append(f"{unmatched} batches are on one side only and are not compared.")
    if not batches:
        raise DumpError(f"{root}: no batch can be read; {lost[0]}")
    prompts = [batch.prompts for batch in batches if batch.prompts is not None]
    steps = [batch.steps for batch in batches if batch.steps is not None]
    return Inputs(
        joined([batch.generated for batch in batches]),
        joined([batch.recomputed for batch in batches]),
        np.concatenate(prompts) if len(prompts) == len(batches) else None,
        np.concatenate(steps),
        lost,
    )


def _whole_and_parts(
    one: Iterable[Key], other: Iterable[Key], generated: str, recomputed: str
) -> tuple[list[str], set[Key]]:
    """Return a sentence for each step that was saved whole on one side and in micro steps on the other, and all its
    places.

    The rows of a mini-batch may be in another order than in the whole, so they are not combined.
    """
    lost, places = [], set()
    steps: dict[tuple[int, int], tuple[set[Key], set[Key]]] = defaultdict(lambda: (set(), set()))
    for side, taken in enumerate((one, other)):
        for place in taken:
            steps[place.step, place.rank][side].add(place)
    for (step, rank), both in sorted(steps.items()):
        here, there = (len({place.micro_step for place in side}) for side in both)
        if here != there and 1 in (here, there) and 0 not in (here, there):
            lost.append(
                f"Not compared (step {step}, rank {rank}): {generated} was saved in {here} micro steps and "
                f"{recomputed} in {there}; save both completely, or both in the same mini-batches."
            )
            places |= both[0] | both[1]
    return lost, places


def _at(place: Key, own: Batches, generated: Batches, name: str) -> Array:
    """Return the array of a tag at a place, among those of its micro step; raise a DumpError if there is none.

    If a micro step saved a list of samples, data of the samples may be one array for all of them.
    """
    if len(generated) > 1 and len(own) == 1:
        numbers = load_npy(*own.values())
        if numbers.shape == (len(generated),):
            at = sorted(generated, key=Key.order).index(place)
            return numbers[at : at + 1]
    if place not in own:
        raise DumpError(f"{name} is missing")
    return load_npy(own[place])
