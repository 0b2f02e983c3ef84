"""A worker as `against/worker.py`, with PyTorch: collected steps of a small GPT on request."""

import argparse
import json
import os
import shutil
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

from msprobe.pytorch import PrecisionDebugger


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down, self.heads = nn.Linear(width, 4 * width), nn.Linear(4 * width, width), heads

    def forward(self, x):
        b, t, w = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, w // self.heads).permute(2, 0, 3, 1, 4)
        scores = torch.softmax(q @ k.transpose(-2, -1) / (w // self.heads) ** 0.5, -1)
        x = x + self.out((scores @ v).transpose(1, 2).reshape(b, t, w))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    """Four blocks, hidden 64, sequence 16, batch 2: small, so that the debugger is most of a collected step."""

    def __init__(self, width=64, heads=4, blocks=4, words=100):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(words, width), nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), ids.flatten())


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
    net, ids = Gpt(), torch.randint(0, 100, (2, 16))
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
