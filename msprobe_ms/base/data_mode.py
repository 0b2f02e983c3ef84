"""Which parts of a call are kept: forward or backward, inputs or outputs."""

from dataclasses import dataclass

from .checks import listed, shown, texts
from .errors import SettingsError

WORDS = ("all", "input", "output", "forward", "backward")
MOST_WORDS = 4


@dataclass(frozen=True)
class DataMode:
    """Two sides times two parts; a part is kept where both its words are in force."""

    forward: bool = True
    backward: bool = True
    input: bool = True
    output: bool = True

    @property
    def forward_input(self) -> bool:
        """`input_args` and `input_kwargs` of forward calls."""
        return self.forward and self.input

    @property
    def forward_output(self) -> bool:
        """`output` of forward calls."""
        return self.forward and self.output

    @property
    def backward_input(self) -> bool:
        """`input` of backward calls: gradients with respect to the forward outputs."""
        return self.backward and self.input

    @property
    def backward_output(self) -> bool:
        """`output` of backward calls: gradients with respect to the forward inputs."""
        return self.backward and self.output

    @property
    def parameters_grad(self) -> bool:
        """Parameter gradients: left out only where the user asked for forward alone."""
        return self.backward

    def described(self) -> list[str]:
        """The shortest list of words that means this."""
        if self.forward and self.backward and self.input and self.output:
            return ["all"]
        sides = [word for word in ("forward", "backward") if getattr(self, word)]
        parts = [word for word in ("input", "output") if getattr(self, word)]
        return (sides if len(sides) == 1 else []) + (parts if len(parts) == 1 else [])


def parts(value: object) -> DataMode:
    """What a list of words means. A side that is not named at all is completed: `["input"]` is both directions."""
    words = texts(value)
    for word in words:
        if word not in WORDS:
            raise SettingsError(f"{shown(word)} is not known here; choose from {listed(WORDS)}")
    if len(words) > MOST_WORDS:
        raise SettingsError(f"{len(words)} words are more than {MOST_WORDS}; write each at most once")
    if "all" in words and len(words) > 1:
        raise SettingsError(f'"all" stands beside other words in {shown(value)}; write ["all"] or leave "all" out')
    any_side = not {"forward", "backward"} & set(words)
    any_part = not {"input", "output"} & set(words)
    return DataMode(
        forward=any_side or "forward" in words,
        backward=any_side or "backward" in words,
        input=any_part or "input" in words,
        output=any_part or "output" in words,
    )
