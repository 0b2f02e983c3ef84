"""Dumps of the twins, each made once in a run, all in this process."""

import sys
from pathlib import Path

import mindspore as ms
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import make
import truth


class Twins:
    """Folders of dumps; what does not differ in a variant is the plain dump."""

    def __init__(self, root):
        self.root = root
        self.made = {}

    def dump(self, net, framework, variant=None, bug=None, steps=1, **settings):
        """The folder of a dump: `step0`, `step1`, ... are in it."""
        if variant and not self._differs(net, framework, variant):
            variant = None
        key = (net, framework, variant, bug, steps, *sorted(settings.values()))
        if key not in self.made:
            folder = self.root / "-".join(str(part) for part in key if part is not None)
            debugger = make.collect(net, framework, folder, variant, bug, steps, **settings)
            type(debugger)._known.clear()  # other tests in this process begin as if there had been none
            type(debugger)._latest = None
            self.made[key] = folder
        return self.made[key]

    def pair(self, net, variant=None, **settings):
        """Both sides of a twin."""
        return tuple(self.dump(net, framework, variant, **settings) for framework in ("mindspore", "pytorch"))

    @staticmethod
    def _differs(net, framework, variant):
        truths, side = truth.load(net, variant), make.SIDE[framework]
        other_weights = {"equal_weights", "fused_qkv"} & set(truth.names_of(variant))
        return bool(other_weights) or truths.scrambled == side or bool(truths.patches[side])


@pytest.fixture(scope="session")
def twins(tmp_path_factory):
    """Makes dumps of twins."""
    ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
    return Twins(tmp_path_factory.mktemp("twins"))
