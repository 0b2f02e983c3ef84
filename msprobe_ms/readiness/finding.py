"""What may be wrong before a training, as data."""

from dataclasses import dataclass

from msprobe.findings.kind import Kind, Severity


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
