"""What may be wrong before a training, as data."""

from dataclasses import dataclass

from msprobe.base.phrase import Phrase
from msprobe.findings.catalogue import readiness as kinds
from msprobe.findings.finding import Finding, Place
from msprobe.findings.kind import Kind, Severity

_SIZES = (kinds.LITTLE_SPACE, kinds.BUDGET)
"""Kinds whose values are numbers of bytes."""


@dataclass(frozen=True)
class Obstacle:
    """One finding of a kind of `msprobe.findings.catalogue.readiness`.

    subject : a package, a path, or the place of a setting.
    value : what it has.
    expected : what it should have.
    reason : the underlying error message.
    """

    kind: Kind
    subject: str
    value: str = ""
    expected: str = ""
    reason: str = ""

    @property
    def is_wrong(self) -> bool:
        """Return whether something fails or is not collected because of it."""
        return self.kind.severity is not Severity.NOTE

    @property
    def message(self) -> Phrase:
        """Return the sentence of its kind."""
        value, expected = self.value, self.expected
        if self.kind in _SIZES:
            value, expected = size(int(value)), size(int(expected))
        variant = ""
        if self.kind is kinds.VERSION:
            variant = "python" if self.subject == "Python" else "package"
        because = f": {self.reason}" if self.reason else ""
        return self.kind.sentence(
            variant, subject=self.subject, value=value, expected=expected, reason=self.reason, because=because
        )

    def as_finding(self, part: str) -> Finding:
        """Return it as a finding about a part: `installation`, `configuration` or `dump_path`."""
        fields = {"part": part, "value": self.value, "expected": self.expected, "reason": self.reason}
        return Finding(self.kind, Place(self.subject or part), self.message, fields=fields)


def size(number: int) -> str:
    """Return a number of bytes with its unit: `1.5 GiB`."""
    amount = float(number)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}"
        amount /= 1024
    return f"{amount:.4g} TiB"
