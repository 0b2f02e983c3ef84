"""Collects trainings of one framework in one process: `python train.py JOBS.json`.

A job is an object: `out` (the folder of the dump), `net`, `seed`, `size`, `level`, `task`, `steps`, `begin` (the first
step that is collected), and for MindSpore `inside` (how calls compute, as `kernels.Inside`), `rewrite` (a name of
`rewrites.REWRITES`) and `fault` (what is planted, as a fault file has it).
"""

import importlib.util
import json
import os
import sys
import time
import traceback
from pathlib import Path

import inputs
from effects import changed

HERE = Path(__file__).parent


def program(framework, job):
    """The module of a job's net; with patches of its text the module is written beside the dump, for call stacks."""
    source = HERE / f"nets_{framework}" / f"{job['net']}.py"
    patches = (job.get("fault") or {}).get("text", [])
    if patches:
        text = source.read_text()
        for patch in patches:
            if text.count(patch["old"]) != patch.get("times", 1):
                raise ValueError(f"{job['out']}: stands there {text.count(patch['old'])} times: {patch['old']}")
            text = text.replace(patch["old"], patch["new"])
        source = Path(job["out"]).parent / f"{job['net']}.py"
        source.write_text(text)
    spec = importlib.util.spec_from_file_location(f"{framework}_{job['net']}", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def weights(named_shapes, job):
    """(name, array) of every parameter, with a weight fault planted."""
    wrong = (job.get("fault") or {}).get("weight", {})
    for name, shape in named_shapes:
        value = inputs.weight(name, shape, job["seed"])
        if inputs.canonical(name) == wrong.get("name"):
            value = changed(value, wrong["effect"])
        yield name, value


def batch(job, step):
    """The arrays of a step, with a data fault planted."""
    arrays = list(inputs.batch(job["net"], job["seed"], step))
    wrong = (job.get("fault") or {}).get("data", {})
    if wrong and step == wrong.get("step", 0):
        arrays[wrong["argument"]] = changed(arrays[wrong["argument"]], wrong["effect"])
    return arrays


def debugger_of(framework, job):
    """A debugger that collects the job's steps."""
    if framework == "mindspore":
        from msprobe.mindspore import PrecisionDebugger
    else:
        from msprobe.pytorch import PrecisionDebugger
    steps = list(range(job.get("begin", 0), job["steps"]))
    return PrecisionDebugger(dump_path=job["out"], level=job["level"], task=job["task"], step=steps)


def forget(debugger):
    """Let the next job of this process have a debugger of its own."""
    type(debugger)._known.clear()


def mindspore(job):
    """Train with MindSpore; gives the losses."""
    import mindspore as ms
    from kernels import Inside
    from planting import planted

    fault = job.get("fault") or {}
    module = program("mindspore", job)
    if job.get("rewrite"):
        import rewrites

        rewrites.apply(module, job["rewrite"])
    ms.set_seed(job["seed"])
    net = module.Net(job["size"])
    trained = net.trainable_params()
    for parameter in trained:
        parameter.set_data(
            ms.Tensor(next(v for _, v in weights([(parameter.name, parameter.shape)], job)), parameter.dtype)
        )
    optimizer, gradient = module.optimizer(trained), ms.value_and_grad(net, None, trained)
    inside = Inside(**job["inside"]) if job.get("inside") else None
    losses = []
    with planted(inside, fault.get("kernel")) as hit:
        debugger = debugger_of("mindspore", job)
        for step in range(job["steps"]):
            data = module.arguments(*batch(job, step))
            debugger.start(net)
            loss, gradients = gradient(*data)
            debugger.stop()
            if step + 1 < job["steps"]:  # its graph takes a second to compile
                optimizer(gradients)
            debugger.step()
            losses.append(float(loss.asnumpy()))
        forget(debugger)
    if fault.get("kernel") and not hit:
        raise ValueError(f"{job['out']}: the faulty call never ran")
    return losses


def pytorch(job):
    """Train with PyTorch; gives the losses."""
    import torch

    module = program("torch", job)
    net = module.Net(job["size"])
    with torch.no_grad():
        named = dict(net.named_parameters())
        for name, value in weights([(name, tuple(p.shape)) for name, p in named.items()], job):
            named[name].copy_(torch.from_numpy(value))
    optimizer, losses = module.optimizer(list(net.parameters())), []
    debugger = debugger_of("pytorch", job)
    for step in range(job["steps"]):
        data = module.arguments(*batch(job, step))
        debugger.start(net)
        loss = net(*data)
        optimizer.zero_grad()
        loss.backward()
        debugger.stop()
        if step + 1 < job["steps"]:
            optimizer.step()
        debugger.step()
        losses.append(float(loss.detach()))
    forget(debugger)
    return losses


def main(jobs_file):
    """Run every job of the file; a line of JSON for each on standard output, also for one that failed."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # frameworks print there
    jobs = json.loads(Path(jobs_file).read_text())
    frameworks = {"mindspore": mindspore, "pytorch": pytorch}
    if any(job["framework"] == "mindspore" for job in jobs):
        import mindspore as ms

        ms.set_context(mode=ms.PYNATIVE_MODE, pynative_synchronize=True)
        ms.set_context(runtime_num_threads=int(os.environ.get("BUGS_RUNTIME_THREADS", "1")))
    for job in jobs:
        began = time.perf_counter()
        result = {"out": job["out"]}
        try:
            result["losses"] = frameworks[job["framework"]](job)
        except Exception:  # one job that fails must not end the others: the driver says which and why
            result["failed"] = traceback.format_exc()
        result["seconds"] = round(time.perf_counter() - began, 3)
        print(json.dumps(result), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
