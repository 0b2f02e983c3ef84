"""Where torch is not installed, that is the answer; what would not be replayed anyway keeps its cause."""

import sys

from msprobe.replay.recorded import Cause, NotReplayed


def test_without_torch_the_cause_says_so(writer, random, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    for name in [name for name in sys.modules if name.startswith("msprobe.replay.reference")]:
        monkeypatch.delitem(sys.modules, name)
    dump = writer("pytorch")
    x = random(3)
    dump.forward("Torch.exp.0.forward", [x], outputs=[x])
    dump.forward("Torch.rand.0.forward", [3], outputs=[x])
    assert dump.replayed("Torch.exp.0.forward") == NotReplayed(Cause.NO_LIBRARY)
    assert dump.replayed("Torch.rand.0.forward").cause is Cause.RANDOM
