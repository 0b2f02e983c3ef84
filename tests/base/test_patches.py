"""`base/patches.py`: attributes that are replaced together, and what is installed with them."""

from types import SimpleNamespace

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
