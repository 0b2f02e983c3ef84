"""Which runs of a model are collected while tokens are generated: each run gives one token."""


class Tokens:
    """The runs `first` to `last` of a model, both included and counted from 0, since `start`."""

    def __init__(self, model: int, first: int, last: int) -> None:
        self.model = model
        self._first, self._last = first, last
        self._run = -1

    def takes_next(self) -> bool:
        """Another run begins; whether it is collected."""
        self._run += 1
        return self._first <= self._run <= self._last
