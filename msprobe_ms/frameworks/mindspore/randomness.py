"""Random numbers of MindSpore."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import mindspore as ms
from mindspore import Tensor

from msprobe.frameworks.interface import random_functions

_DRAWN = (
    *("rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm", "uniform", "normal"),
    *("standard_normal", "multinomial", "bernoulli", "gamma", "laplace", "random_poisson", "shuffle", "dropout"),
)


class Random:
    """Random numbers of MindSpore."""

    functions = (
        *random_functions("mindspore", ("set_seed", "manual_seed", "seed")),
        *random_functions("mindspore.ops", _DRAWN),
        *random_functions("mindspore.mint", _DRAWN),
        *random_functions("mindspore.mint.nn.functional", ("dropout",)),
        *random_functions(
            "mindspore:Tensor", ("uniform_", "normal_", "exponential_", "random_", "bernoulli_", "multinomial"),
            "mindspore.Tensor",
        ),
    )  # fmt: skip

    is_traced: Callable[[], bool] | None = None
    """The graph compiler reads the function in `__wrapped__` of a wrapper, and does not execute the wrapper."""

    def states(self, tensors: Sequence[Tensor]) -> bytes:
        return bytes(ms.get_rng_state().asnumpy().tobytes())

    @contextmanager
    def restored(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        state = ms.get_rng_state()
        try:
            yield
        finally:
            ms.set_rng_state(state)


CAPABILITY = Random()
