"""What the names of settings say: which change numbers and which are of a place or a time.

A name is taken apart at what is neither letter nor digit, and at capitals; an entry matches where its words stand in it
side by side. What matches nothing stands between the two.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Meaning:
    """A kind of setting: what it changes, where that is said, and names that it goes by."""

    changes: str
    source: str
    names: tuple[str, ...]


NUMERIC = (
    Meaning(
        "random numbers",
        "MindSpore and PyTorch: a generator's numbers follow from its seed",
        ("seed", "random state", "do sample", "deterministic"),
    ),
    Meaning(
        "sampling",
        "softmax with temperature; top-k sampling, arXiv:1805.04833; nucleus sampling, arXiv:1904.09751",
        ("temperature", "top k", "top p", "min p", "repetition penalty", "num beams"),
    ),
    Meaning(
        "dtype and rounding",
        "IEEE 754: a narrower type rounds earlier",
        ("dtype", "precision", "bf16", "fp16", "fp32", "amp", "loss scale", "compute type", "quantization"),
    ),
    Meaning(
        "normalisation",
        "layer normalisation, arXiv:1607.06450; RMS normalisation, arXiv:1910.07467; Adam, arXiv:1412.6980",
        ("eps", "epsilon", "norm type", "dropout", "rope theta", "rope scaling"),
    ),
    Meaning(
        "the update",
        "AdamW, arXiv:1711.05101",
        ("lr", "learning rate", "weight decay", "betas", "beta1", "beta2", "warmup", "optimizer", "clip grad"),
    ),
    Meaning(
        "the objective",
        "PPO, arXiv:1707.06347; GAE, arXiv:1506.02438; GRPO, arXiv:2402.03300",
        ("kl", "beta", "clip", "cliprange", "gamma", "lam", "lambda", "entropy", "adv estimator", "coef", "reward"),
    ),
    Meaning(
        "shapes and batches",
        "sums in another order round otherwise; another length reads other tokens",
        ("batch", "batch size", "micro batch", "num layers", "hidden size", "length", "tokens",
         "padding", "pad token id", "eos token id", "num generations", "epochs", "shuffle", "parallel"),
    ),
    Meaning(
        "what is loaded",
        "other weights, tokens or data are another run",
        ("checkpoint", "ckpt", "load", "model path", "model name", "tokenizer", "dataset", "data path", "vocab size"),
    ),
)  # fmt: skip
"""In the order in which they are told."""

PLACE = Meaning(
    "place or time",
    "differs between any two runs",
    ("dump path", "output", "save", "log", "logs", "time", "timestamp", "date", "host", "port", "pid", "ip", "address",
     "url", "experiment name", "run name", "run id", "uuid", "msprobe", "step start", "step end"),
)  # fmt: skip
"""Told last."""

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*|\d+[a-z]*")


def rank_of(path: tuple[str, ...]) -> tuple[int, Meaning | None]:
    """Where in the order of telling a setting stands, by its path of names, the last one first; and as what."""
    for name in reversed(path):
        said = _said(name)
        for at, meaning in enumerate(NUMERIC):
            if any(f" {known} " in said for known in meaning.names):
                return at, meaning
        if any(f" {known} " in said for known in PLACE.names):
            return len(NUMERIC) + 1, PLACE
    return len(NUMERIC), None


def _said(name: str) -> str:
    """`topK`, `top_k` and `TOP-K` as ` top k `."""
    return f" {' '.join(word.lower() for word in _WORDS.findall(name[:200]))} "
