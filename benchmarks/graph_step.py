"""What cells in graph mode cost: the time of a compiled training step, bare and collected, task by task.

    python benchmarks/graph_step.py [--nets transformer small] [--tasks TASK ...] [--rounds N] [--processor]
    python benchmarks/graph_step.py --profile TASK

Every variant of a network is compiled once: without msprobe; with its operators and nothing collected (`idle`); and
collected with each task. Every round runs one step of each in turn, so a slow moment of the machine strikes all alike.
A step is forward, backward and optimizer; a collected one is start, the step, stop and step, with all that is written.
Medians are shown, and their ratio to the bare step's. `--processor` measures the processor time of the process in place
of the clock, for machines with other work. `--profile` runs one task alone under cProfile.
"""

import argparse
import cProfile
import pstats
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import mindspore as ms
import numpy as np
from mindspore import Tensor, nn, ops

from msprobe.mindspore import PrecisionDebugger

TASKS = ("statistics", "md5", "crc32c", "tensor", "structure")
WARM_UP = 2


class Block(nn.Cell):
    """A pre-norm block of a transformer."""

    def __init__(self, width, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm((width,)), nn.LayerNorm((width,))
        self.q, self.k, self.v, self.o = (nn.Dense(width, width) for _ in range(4))
        self.up, self.act, self.down = nn.Dense(width, 4 * width), nn.GELU(), nn.Dense(4 * width, width)
        self.heads = heads

    def construct(self, x):
        rows, length, width = x.shape
        y = self.n1(x)
        shape = (rows, length, self.heads, width // self.heads)
        q, k, v = (layer(y).reshape(shape).transpose((0, 2, 1, 3)) for layer in (self.q, self.k, self.v))
        scores = ops.softmax(ops.matmul(q, k.transpose((0, 1, 3, 2))) / 8.0, -1)
        x = x + self.o(ops.matmul(scores, v).transpose((0, 2, 1, 3)).reshape((rows, length, width)))
        return x + self.down(self.act(self.up(self.n2(x))))


class Transformer(nn.Cell):
    """Embedding, four blocks of width 256, head."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(1000, 256)
        self.blocks = nn.SequentialCell([Block(256, 8) for _ in range(4)])
        self.head = nn.Dense(256, 1000)

    def construct(self, ids):
        return self.head(self.blocks(self.emb(ids))).reshape((-1, 1000))


class Small(nn.Cell):
    """Five layers of width 16: nothing but overhead."""

    def __init__(self):
        super().__init__()
        self.layers = nn.SequentialCell([nn.Dense(16, 16) for _ in range(4)])
        self.head = nn.Dense(16, 10)

    def construct(self, x):
        return self.head(self.layers(x))


def words():
    """Eight sequences of 64."""
    rng = np.random.default_rng(0)
    return [Tensor(rng.integers(0, 1000, shape), ms.int32) for shape in ((8, 64), (512,))]


def rows():
    """32 rows."""
    rng = np.random.default_rng(0)
    return [Tensor(rng.standard_normal((32, 16)), ms.float32), Tensor(rng.integers(0, 10, (32,)), ms.int32)]


NETS = {"transformer": (Transformer, words), "small": (Small, rows)}


class Variant:
    """A network that is trained in one of the ways; `task` None: without msprobe."""

    def __init__(self, net, task, folder, clock=time.perf_counter):
        self.clock = clock
        made, self.batch = NETS[net][0](), NETS[net][1]()
        self.net, self.task, self.folder = made, task, folder / f"{net}-{task}"
        self.step = nn.TrainOneStepCell(
            nn.WithLossCell(made, nn.CrossEntropyLoss()), nn.SGD(made.trainable_params(), 0.01)
        ).set_train()
        self.debugger, self.seconds = None, []
        if task is not None:
            config = folder / f"{net}-{task}.json"
            has_digests = task in ("md5", "crc32c")
            kind, section = ("statistics", f'{{"summary_mode": "{task}"}}') if has_digests else (task, "{}")
            kind = "statistics" if task == "idle" else kind
            config.write_text(f'{{"task": "{kind}", "level": "L0", "dump_path": "{self.folder}", "{kind}": {section}}}')
            self.debugger = PrecisionDebugger(str(config))

    def run(self, number):
        """One step."""
        collects = self.debugger is not None and (self.task != "idle" or number == 0)
        begin = self.clock()
        if collects:
            self.debugger.start(self.net)
        self.step(*self.batch).asnumpy()
        if collects:
            self.debugger.stop()
            self.debugger.step()
        took = self.clock() - begin
        if number >= WARM_UP:
            self.seconds.append(took)
        if collects:
            for step in self.folder.glob("step*"):
                shutil.rmtree(step)


def main():
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nets", nargs="+", choices=NETS, default=list(NETS))
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--tasks", nargs="+", choices=("idle", *TASKS), default=("idle", *TASKS))
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--profile", choices=TASKS)
    args = parser.parse_args()
    ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": "O0"})
    with tempfile.TemporaryDirectory() as folder:
        if args.profile:
            variant = Variant(args.nets[0], args.profile, Path(folder))
            for number in range(WARM_UP):
                variant.run(number)
            profile = cProfile.Profile()
            profile.runcall(lambda: [variant.run(WARM_UP + n) for n in range(args.rounds)])
            pstats.Stats(profile).sort_stats("tottime").print_stats(25)
            return
        clock = time.process_time if args.processor else time.perf_counter
        print("| net | bare | " + " | ".join(args.tasks) + " |")
        print("|---" * (len(args.tasks) + 2) + "|")
        for net in args.nets:
            variants = [Variant(net, task, Path(folder), clock) for task in (None, *args.tasks)]
            for number in range(WARM_UP + args.rounds):
                for variant in variants:
                    variant.run(number)
            bare, *medians = (statistics.median(variant.seconds) * 1e3 for variant in variants)
            cells = [f"{bare:.2f} ms", *(f"{each:.2f} ms ({each / bare:.2f}x)" for each in medians)]
            print(f"| {net} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
