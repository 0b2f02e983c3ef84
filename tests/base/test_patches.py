"""`base/patches.py`: attributes that are replaced together, and what is installed with them."""

from types import ModuleType, SimpleNamespace

import pytest

from msprobe.base.patches import Patches


class Joined:
    """Keeps what an attribute was when this was installed and removed."""

    def __init__(self, owner):
        self.owner, self.seen = owner, []

    def install(self):
        self.seen.append(self.owner.name)

    def remove(self):
        self.seen.append(self.owner.name)


def test_what_is_joined_is_installed_last_and_removed_first():
    owner = SimpleNamespace(name="original")
    patches, joined = Patches(), Joined(owner)
    patches.join(joined)
    patches.add(owner, "name", lambda original: f"wrapped {original}")
    for _ in range(2):
        patches.install()
        assert owner.name == "wrapped original"
        patches.remove()
        assert owner.name == "original"
    assert joined.seen == ["wrapped original"] * 4


def test_an_interrupt_while_a_replacement_is_made_leaves_the_original_and_the_next_install_makes_it():
    owner, interrupted = ModuleType("owner"), []

    def make(original):
        if not interrupted:
            interrupted.append(original)
            raise KeyboardInterrupt
        return f"wrapped {original}"

    owner.first, owner.second = "first", "second"
    patches = Patches()
    patches.add(owner, "first", lambda original: f"wrapped {original}")
    patches.add(owner, "second", make)
    with pytest.raises(KeyboardInterrupt):
        patches.install()
    patches.remove()
    assert (owner.first, owner.second) == ("first", "second")
    for _ in range(2):
        patches.install()
        assert (owner.first, owner.second) == ("wrapped first", "wrapped second")
        patches.remove()
        assert (owner.first, owner.second) == ("first", "second")


def test_another_original_of_which_no_replacement_was_made_is_not_replaced_by_the_former_one():
    owner, refused = ModuleType("owner"), ["other"]

    def make(original):
        if original in refused:
            raise KeyboardInterrupt
        return f"wrapped {original}"

    owner.name = "original"
    patches = Patches()
    patches.add(owner, "name", make)
    patches.install()
    patches.remove()
    owner.name = "other"
    with pytest.raises(KeyboardInterrupt):
        patches.install()
    patches.remove()
    assert owner.name == "other"
    refused.clear()
    patches.install()
    assert owner.name == "wrapped other"
