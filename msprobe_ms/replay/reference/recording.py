"""What a reference is told of the record: it decides between meanings that the arguments leave open."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Recorded:
    """Shape and dtype (`float32`) of the first output as recorded."""

    shape: tuple[int, ...]
    dtype: str
