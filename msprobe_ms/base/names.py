"""The grammar of names: what `Cell.a.fc.Dense.forward.0` says, read and made in one place.

```
api         Prefix "." name "." N "." direction            Functional.relu.0.forward
primitive   "Primitive." attribute "." Class "." N "." d   Primitive.matmul.MatMul.0.forward
jit         "Jit." name "." N "." direction                Jit.train_step.0.forward
cell        ("Cell"|"Module") "." path "." Class "." direction "." N
paramgrad   ("Cell"|"Module") "." path "." Class ".parameters_grad" ["." K]
debug       name "." N ".debug"
```

For a cell the direction comes before the number, for everything else after it.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

Direction = Literal["forward", "backward", ""]
Kind = Literal["cell", "api", "parameters_grad", "debug", "other"]

CELL_PREFIXES = ("Cell", "Module")
API_PREFIXES = (
    *("Tensor", "Functional", "Mint", "MintFunctional", "MintDistributed", "Distributed", "Primitive", "Jit"),
    *("Dispatch", "Torch", "NPU", "Aten", "VF"),
)
"""What collectors put before the name of a function; one that the user registered himself may have any other."""

# A number has at most 18 digits: a name in a broken dump must not become a number that Python refuses to read.
_NUMBER = r"([0-9]{1,18})"
_CELL = re.compile(rf"((?:Cell|Module)\..+)\.(forward|backward)\.{_NUMBER}", re.DOTALL)
_API = re.compile(rf"(.+)\.{_NUMBER}\.(forward|backward)", re.DOTALL)
_PARAMETERS_GRAD = re.compile(rf"((?:Cell|Module)\..+)\.parameters_grad(?:\.{_NUMBER})?", re.DOTALL)
_DEBUG = re.compile(rf"(.+)\.{_NUMBER}\.debug", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Name:
    """A call's name, taken apart.

    `stem` is everything before direction and number: `Cell.a.fc.Dense`, `Functional.relu`.
    `number` is -1 where the name carries none.
    """

    text: str
    kind: Kind
    stem: str
    direction: Direction
    number: int

    @property
    def path(self) -> str:
        """The dotted path of a cell without prefix and class (`a.fc`); empty for everything else."""
        if self.kind not in ("cell", "parameters_grad"):
            return ""
        return ".".join(self.stem.split(".")[1:-1])


# The names of two large dumps are gone through again and again, in one order: of a cache that is too small for them,
# each name is dropped just before it is asked for again.
@lru_cache(maxsize=1 << 18)
def parse(text: str) -> Name:
    """Take a call's name apart; a text that fits no rule is of kind `other` and its own stem."""
    if m := _CELL.fullmatch(text):
        return Name(text, "cell", m[1], m[2], int(m[3]))  # type: ignore[arg-type]  # the pattern says so
    if m := _API.fullmatch(text):
        return Name(text, "api", m[1], m[3], int(m[2]))  # type: ignore[arg-type]  # the pattern says so
    if m := _PARAMETERS_GRAD.fullmatch(text):
        return Name(text, "parameters_grad", m[1], "backward", int(m[2]) if m[2] else -1)
    if m := _DEBUG.fullmatch(text):
        return Name(text, "debug", m[1], "", int(m[2]))
    return Name(text, "other", text, "", -1)


def api_call(stem: str, number: int, direction: str) -> str:
    """The name of an API, primitive or jit call: `Functional.relu.0.forward`."""
    return f"{stem}.{number}.{direction}"


def cell_call(stem: str, number: int, direction: str) -> str:
    """The name of a cell call: `Cell.fc.Dense.forward.0`."""
    return f"{stem}.{direction}.{number}"


def counterpart(text: str, direction: Literal["forward", "backward"]) -> str:
    """The name of the same call in the other direction; the text itself where it has none."""
    name = parse(text)
    if name.kind == "cell":
        return cell_call(name.stem, name.number, direction)
    if name.kind == "api":
        return api_call(name.stem, name.number, direction)
    return text
