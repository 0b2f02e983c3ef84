"""One process of the step benchmark: it runs a step on request, and reports how long that took.

    python worker.py --tool none|ours|other --net NET [--config FILE --level LEVEL --folder DIR] [--asynchronous]

It is run by the Python of either environment and imports whatever `msprobe` that has: both tools are used by the same
lines. Commands are words on standard input, one a line: the names of `Training`'s methods. Each is answered by one line
of JSON on standard output.
"""

import argparse
import cProfile
import io
import json
import math
import os
import pstats
import shutil
import sys
import time
from pathlib import Path

import mindspore as ms
import numpy as np
from nets import NETS


class StandIn:
    """In place of `mindspore.mint.norm`, which has no CPU kernel.

    Synchronously it is one BLAS product over the tensor's own memory, which is cheaper than a kernel. That waits for
    the tensor, so asynchronously it is three kernels, taken before a tool could have wrapped them.
    """

    def __init__(self, asynchronous):
        self.seconds = 0.0
        self.norm = self._queued if asynchronous else self._at_once
        self.square, self.sum, self.sqrt = ms.mint.square, ms.mint.sum, ms.mint.sqrt

    def __call__(self, tensor, *args, **kwargs):
        begin = time.perf_counter()
        norm = self.norm(tensor)
        self.seconds += time.perf_counter() - begin
        return norm

    def _at_once(self, tensor):
        flat = tensor.asnumpy().reshape(-1)
        return ms.Tensor.from_numpy(np.array(math.sqrt(np.dot(flat, flat)), np.float32))

    def _queued(self, tensor):
        return self.sqrt(self.sum(self.square(tensor)))


class Training:
    """A network, its batch, and the debugger if there is one."""

    def __init__(self, args):
        ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=not args.asynchronous)
        self.folder, self.is_debug, self.stand_in = args.folder, args.level == "debug", StandIn(args.asynchronous)
        if args.tool == "other":
            ms.mint.norm = self.stand_in
        if args.tool != "none":  # the other tool asks to be constructed before the network
            from msprobe.mindspore import PrecisionDebugger

            self.debugger = PrecisionDebugger(config_path=args.config)
        ms.set_seed(1)
        make, shape = NETS[args.net]
        self.net = make()
        self.x = ms.Tensor(np.random.default_rng(0).standard_normal(shape).astype(np.float32))
        self.gradient = ms.value_and_grad(self.net, None, self.net.trainable_params())

    def run(self):
        """Forward and backward of one batch, to the end."""
        loss, gradients = self.gradient(self.x)
        for each in (loss, *gradients):
            each.asnumpy()

    def bare(self):
        """A step that is not collected."""
        return self._timed(self.run)

    def collect(self):
        """A step that is collected, as a user collects it; level debug needs no start."""
        return self._timed(self._debug if self.is_debug else self._collect)

    def profile(self):
        """Where the time of ten collected steps goes, as text."""
        profiler, text = cProfile.Profile(), io.StringIO()
        for _ in range(10):
            profiler.runcall(self.collect)
            self.empty()
        pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(40)
        return {"text": text.getvalue()}

    def empty(self):
        """Delete what was written."""
        for each in self.folder.iterdir():
            if each.is_dir():  # run.jsonl stays: it says whose folder this is
                shutil.rmtree(each)
        return {}

    def peak(self):
        """The most that this process ever held, in MB."""
        status = Path("/proc/self/status").read_text().splitlines()
        return {"MB": next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) / 1024}

    def _collect(self):
        self.debugger.start(self.net)
        self.run()
        self.debugger.stop()
        self.debugger.step()

    def _debug(self):
        self.net.seen = self.debugger.save
        self.run()
        self.net.seen = None
        self.debugger.step()

    def _timed(self, step):
        self.stand_in.seconds = 0.0
        processor, begin = time.process_time(), time.perf_counter()
        step()
        seconds = time.perf_counter() - begin
        return {"seconds": seconds, "cpu": time.process_time() - processor, "stand_in": self.stand_in.seconds}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", choices=["none", "ours", "other"], required=True)
    parser.add_argument("--net", choices=list(NETS), required=True)
    parser.add_argument("--config")
    parser.add_argument("--level")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--asynchronous", action="store_true")
    args = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever a tool prints is no answer
    training, command = None, "construct"
    while command:
        try:
            if training is None:
                training, found = Training(args), {}
            else:
                found = getattr(training, command)()
        except Exception as cause:  # is sent to the driver, which prints it in place of this kind's numbers
            found = {"failed": f"{type(cause).__name__}: {cause}"}
        print(json.dumps(found), file=answers, flush=True)
        command = sys.stdin.readline().strip()


if __name__ == "__main__":
    main()
