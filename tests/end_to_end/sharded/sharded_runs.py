"""Runs of `sharded.py`: real processes with gloo, and what they wrote."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import torch
from sharded import batch, made

from msprobe.store.reader import entries_of, find

SCRIPT = Path(__file__).with_name("sharded.py")
LIMIT = 300  # seconds


def run(folder, kind, ranks, script=SCRIPT, **options):
    """Train in `ranks` processes; returns what each reports."""
    folder.mkdir(parents=True, exist_ok=True)
    pairs = [f"{key}={value}" for key, value in options.items()]
    commands = [
        [sys.executable, str(script), str(folder), str(rank), str(ranks), kind, *pairs] for rank in range(ranks)
    ]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    running = [
        subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
        for each in commands
    ]
    try:
        outputs = [process.communicate(timeout=LIMIT)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * ranks, "\n".join(outputs)[-3000:]
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(ranks)]


def dump(folder, step, rank, *, alone=False):
    """The members and the entries of a rank's dump."""
    return entries_of(find(folder / "dump" / f"step{step}" / ("rank" if alone else f"rank{rank}")))


@cache
def trained(kind="fsdp", steps=2):
    """Weights before each step and gradients of each step, of the whole model on the whole batch, by name."""
    net = made(kind)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    found = []
    for step in range(steps):
        x, y = batch(step)
        weights = {name: parameter.detach().clone() for name, parameter in net.named_parameters()}
        (net(x) - y).square().mean().backward()
        found.append((weights, {name: parameter.grad.clone() for name, parameter in net.named_parameters()}))
        optimizer.step()
        optimizer.zero_grad()
    return found


def records_of(entries, part):
    """The records of parameters (`parameters`) or of their gradients (`parameters_grad`), by name."""
    found = {}
    for call, entry in entries.items():
        path = call.split(".")
        if part == "parameters" and path[0] == "Module" and "parameters" in entry:
            found.update((".".join([*path[1:-3], key]), record) for key, record in entry["parameters"].items())
        elif call.endswith(".parameters_grad") and part == "parameters_grad":
            found.update((".".join([*path[1:-2], key]), records[0]) for key, records in entry.items())
    return found
