"""What `save` and `save_grad` refuse, at the call or while a graph is compiled."""

from typing import Any, NoReturn

from .tree import task


def check(function: str, save_dir: Any, name: Any) -> None:
    """Refuse a folder or a name that is no text with a TypeError, and a wrong setting with a SettingsError."""
    task()
    for what, given in (("save_dir", save_dir), ("name", name)):
        if not isinstance(given, str) or not given:
            raise TypeError(f"{function}(): {what} is {given!r}; give a text")


def refuse_data(name: str, kind: str) -> NoReturn:
    """TypeError for something that is neither a tensor nor a container of tensors."""
    raise TypeError(f"save(): {name} is {kind}; give a Tensor, or lists, tuples and dicts of them")


def refuse_gradient(name: str) -> NoReturn:
    """TypeError for something whose gradient cannot be saved."""
    raise TypeError(f"save_grad(): {name} is no Tensor; give one, and use what save_grad gives in its place")
