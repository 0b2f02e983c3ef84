"""The namespaces of `torch` where it is a layer on MindSpore, and where in them a function has to be replaced.

Such a layer is a package of another name, which an import hook shows as `torch`. A function then stands in two modules:
that of the layer, which the layer's own code reads, and the one that users import, which makes its attributes when they
are asked for, and may keep what it made. So both are replaced, and each attribute is asked for once before, that no
replacement of ours is what is kept.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def namespace(name: str) -> ModuleType | None:
    """The module that holds what `name` (`torch.nn.functional`) shows; None where the layer has none."""
    try:
        shown = import_module(name)
    except Exception:  # a part of a layer that does not import here, whatever it raises, has no functions here
        return None
    return sys.modules.get(_target(shown), shown)


def shown_as(name: str, module: ModuleType) -> ModuleType | None:
    """The module that users import by this name, where it is another one than `module`, which holds the functions."""
    shown = sys.modules.get(name)
    return None if shown is module else shown


def asked(shown: ModuleType, name: str) -> bool:
    """Ask for an attribute that is made when it is asked for; whether it is there."""
    return hasattr(shown, name)


def _target(shown: ModuleType) -> Any:
    return getattr(vars(shown).get("__loader__"), "target_name", "")
