"""A worker as `against/worker.py`, with PyTorch: collected steps of a small GPT on request."""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

import torch

from msprobe.pytorch import PrecisionDebugger

sys.path.append(str(Path(__file__).resolve().parents[1]))
from torch_gpt import Gpt


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config")
    parser.add_argument("--folder", type=Path)
    args, _ = parser.parse_known_args()
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    debugger = PrecisionDebugger(config_path=args.config)
    # small, so that the debugger is most of a collected step
    net, ids = Gpt(width=64, heads=4, words=100), torch.randint(0, 100, (2, 16))
    print("{}", file=answers, flush=True)
    for line in sys.stdin:
        processor, begin = time.process_time(), time.perf_counter()
        if line.strip() == "collect":
            debugger.start(net)
            net(ids).backward()
            debugger.stop()
            debugger.step()
            net.zero_grad()
        else:
            for each in args.folder.iterdir():
                if each.is_dir():
                    shutil.rmtree(each)
        found = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - processor}
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
