"""What a rollout check costs: ragged sequences of up to 2,000 tokens in each of its forms.

python benchmarks/rollout.py [--samples 10000] [--longest 2000]
"""

import argparse
import time
from itertools import pairwise

import numpy as np

from msprobe.compare.rollout.entry import compare_rollout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=10_000)
    parser.add_argument("--longest", type=int, default=2_000)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, args.longest + 1, args.samples)
    prompts = rng.integers(1, 500, args.samples)
    begins = np.concatenate(([0], np.cumsum(lengths)))
    generated = -rng.exponential(1.0, begins[-1]).astype(np.float32)
    tokens = rng.integers(0, 150_000, begins[-1]).astype(np.int32)
    noise = {"clean": 1e-6, "gaps of 0.1": 0.1}

    def rows(flat):
        return [flat[a:b] for a, b in pairwise(begins)]

    print(f"{args.samples} samples, {begins[-1]} tokens\n")
    print("| form | clean | gaps of 0.1 |\n|---|---|---|")
    for form in (
        "packed",
        "ragged lists",
        "ragged lists with tokens",
        "the same in another order",
        "other token ids",
        "matrix and mask",
    ):
        cells = []
        for size in noise.values():
            recomputed = np.minimum(generated + rng.normal(0, size, begins[-1]).astype(np.float32), 0)
            more = {"prompt_lengths": prompts}
            if form == "packed":
                sides = generated, recomputed
                more["lengths"] = lengths
            elif form == "matrix and mask":
                inside = np.arange(args.longest) < lengths[:, None]
                sides = []
                for flat in (generated, recomputed):
                    matrix = np.zeros(inside.shape, np.float32)
                    matrix[inside] = flat
                    sides.append(matrix)
                more |= {"generated_mask": inside, "recomputed_mask": inside}
            else:
                order = rng.permutation(args.samples) if "order" in form else np.arange(args.samples)
                other = rows(recomputed)
                sides = rows(generated), [other[at] for at in order]
                if "lists" not in form or "tokens" in form:
                    ids = rows(tokens)
                    more |= {
                        "generated_tokens": ids,
                        "recomputed_tokens": [ids[at] + ("other" in form and "ids" in form) for at in order],
                    }
            began, busy = time.perf_counter(), time.process_time()
            result = compare_rollout(*sides, **more)
            took, busy = time.perf_counter() - began, time.process_time() - busy
            cells.append(f"{took:.1f} s, of the processor {busy:.1f} s ({result.cause})")
        print(f"| {form} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
