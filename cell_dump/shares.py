"""Whose a backward is: several sessions, of stages that share a model, hook the same parameters."""

from weakref import WeakSet

from .framework import Gradients

_known: "WeakSet[Gradients]" = WeakSet()


def shared(gradients: Gradients) -> Gradients:
    """The gradients of one more session of this process."""
    _known.add(gradients)
    return gradients


def others_run() -> bool:
    """Whether a backward runs that has passed the calls of some session; whoever asks knows it is not its own."""
    return any(each.running for each in _known)
