"""What the settings of a collection ask for, once their words are translated: values or names only, files, digests."""

from dataclasses import dataclass

from .checks import shown
from .data_mode import DataMode
from .errors import SettingsError
from .scope import Scope
from .sections import CollectSettings, StructureSettings
from .settings import Settings


@dataclass(frozen=True, slots=True)
class Wishes:
    """`values`: records are made at all (not for task structure). `saves`: each tensor goes to a file. `saved`: so do
    the tensors of calls whose name contains one of these. `digests`: records have a digest.
    """

    data_mode: DataMode
    values: bool = True
    saves: bool = False
    saved: tuple[str, ...] = ()
    digests: bool = False

    def saves_also(self, name: str) -> bool:
        """Whether a call's tensors are saved although the task saves none."""
        return any(pattern in name for pattern in self.saved)

    @property
    def any_file(self) -> bool:
        """Whether any npy file may come."""
        return self.saves or bool(self.saved)


def scope_of(settings: Settings) -> Scope:
    """Which calls `scope` and `list` keep."""
    section = settings.section
    bounds, patterns = (section.scope, section.patterns) if isinstance(section, CollectSettings) else ((), ())
    return Scope(settings.level, bounds, patterns)


def wishes_of(settings: Settings) -> Wishes:
    """What a task and its section ask for."""
    section = settings.section
    if not isinstance(section, CollectSettings):
        if isinstance(section, StructureSettings) or settings.level == "L2":  # kernels are collected by the framework
            return Wishes(DataMode(), values=False)
        raise SettingsError(f"task: {shown(settings.task)} cannot be collected at level {shown(settings.level)}")
    return Wishes(
        data_mode=section.data_mode,
        saves=settings.task == "tensor",
        saved=section.tensor_list,
        digests=section.summary_mode == "md5",
    )
