"""A network of graph_nets.py is trained at level L2: `kernel_steps.py CASE FOLDER [WORD ...]`.

Three steps, of which 0 and 2 are collected. WORD `faulty` gives one norm of the transformer another epsilon; `listed`
asks for some kernels by name, one of them mistyped; `model` trains by `mindspore.train.Model`, resumed at step 5 in the
way of a checkpoint, with an evaluation between its steps. Prints the losses as JSON.
"""

import json
import sys
from pathlib import Path

import mindspore as ms
import numpy as np
from graph_nets import CASES, Loss, made, stepping
from mindspore import Tensor, nn
from mindspore import dataset as datasets
from mindspore.train import Callback, Model

from msprobe.callbacks import MsprobeInitStep, MsprobeStep
from msprobe.mindspore import PrecisionDebugger

LISTED = ["Softmax", "name-regex(.*/n2-LayerNorm/LayerNorm-op[0-9]+)", "LayerNrom"]
RESUMED = 5


class Resumed(Callback):
    """Tells a training where it resumes, as callbacks that load checkpoints do."""

    def on_train_begin(self, run_context):
        run_context.original_args().cur_step_num = RESUMED


class Losses(Callback):
    """Keeps the losses, and runs the network beside the steps: before the first and behind each."""

    def __init__(self, net, batch):
        super().__init__()
        self.net, self.batch, self.losses = net, batch, []

    def on_train_epoch_begin(self, run_context):
        self.net(*self.batch)

    def on_train_step_end(self, run_context):
        self.losses.append(float(run_context.original_args().net_outputs.asnumpy()))
        self.net(*self.batch)


def by_hand(case, net, debugger):
    """A loop of one's own."""
    step = stepping(net, "cell", nn.Momentum(net.trainable_params(), 0.05, 0.9))
    rng = np.random.default_rng(7)
    losses = []
    for number in range(3):
        batch = CASES[case].data(rng, number)
        debugger.start()
        losses.append(float(step(*batch).asnumpy()))
        debugger.stop()
        debugger.step()
    return losses


def by_model(case, net, debugger):
    """The framework's loop."""
    rng = np.random.default_rng(7)
    batches = [CASES[case].data(rng, number) for number in range(3)]
    columns = [np.concatenate([batch[n].asnumpy() for batch in batches]) for n in range(2)]
    data = datasets.NumpySlicesDataset(dict(zip(("x", "y"), columns, strict=True)), shuffle=False).batch(2)
    model = Model(Loss(net), optimizer=nn.Momentum(net.trainable_params(), 0.05, 0.9))
    kept = Losses(net, [Tensor(columns[0][:2])])
    callbacks = [MsprobeStep(debugger), Resumed(), MsprobeInitStep(), kept]
    model.train(1, data, callbacks=callbacks, dataset_sink_mode=False)
    return kept.losses


def main(case, folder, words):
    ms.set_context(mode=ms.GRAPH_MODE, jit_config={"jit_level": "O0"})
    steps = [RESUMED, RESUMED + 2] if "model" in words else [0, 2]
    settings = {"task": "statistics", "step": steps, "statistics": {"list": LISTED if "listed" in words else []}}
    config = Path(folder).with_suffix(".json")
    config.write_text(json.dumps(settings))
    debugger = PrecisionDebugger(config, dump_path=folder, level="L2")
    net = made(case)
    if "faulty" in words:
        gamma, beta = net.b1.n2.gamma, net.b1.n2.beta
        net.b1.n2 = nn.LayerNorm((8,), epsilon=1e-2)
        net.b1.n2.gamma, net.b1.n2.beta = gamma, beta
    return (by_model if "model" in words else by_hand)(case, net, debugger)


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], sys.argv[2], sys.argv[3:])))
