"""Parts that the frameworks' `seed_all` share; imports no framework."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from msprobe.base.errors import SettingsError
from msprobe.base.patches import Patches

MAX_SEED = 2**32 - 1


def check(seed: int, mode: bool | None, rm_dropout: bool) -> None:
    """Raise `SettingsError` for invalid arguments."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED:
        raise SettingsError(f"seed_all: seed is {seed!r}; pass an integer from 0 to {MAX_SEED}")
    if mode is not None and not isinstance(mode, bool):
        raise SettingsError(f"seed_all: mode is {mode!r}; choose True, False, or None to leave determinism unchanged")
    if not isinstance(rm_dropout, bool):
        raise SettingsError(f"seed_all: rm_dropout is {rm_dropout!r}; choose True or False")


def patches_of(rows: "Sequence[tuple[str, str, Callable[[Any], Any]]]") -> Patches:
    """Return patches for rows of owner (a module, or `module:class`), attribute, and factory of the replacement.

    Attributes that this version of the framework does not have are omitted.
    """
    patches = Patches()
    for name, attribute, replace in rows:
        module, _, inner = name.partition(":")
        owner = getattr(import_module(module), inner) if inner else import_module(module)
        if hasattr(owner, attribute):
            patches.add(owner, attribute, replace)
    return patches
