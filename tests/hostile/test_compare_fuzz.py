"""A real dump with some bytes changed: compared or refused with one of our errors, never anything else."""

import random
import shutil
from pathlib import Path

import pytest

from msprobe.base.errors import MsprobeError
from msprobe.compare.jobs.run import run_request
from msprobe.compare.request import FORMATS, Request
from msprobe.store.reader import read

pytestmark = pytest.mark.slow

SAMPLE = Path(__file__).parent.parent / "samples" / "8.1.1" / "dumps" / "ms_mix_tensor" / "step0" / "rank"
TIMES = 300


def change(text, chance):
    """Some bytes replaced, put in, taken out, doubled, or the end cut off."""
    changed = bytearray(text)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(changed))
        size = chance.choice((1, 1, 2, 4, 16))
        new = chance.choice(
            (
                chance.randbytes(size),
                chance.choice(
                    (
                        b'"',
                        b"{",
                        b"}",
                        b"[",
                        b"]",
                        b",",
                        b"-",
                        b"9" * 20,
                        b"1e999",
                        b"NaN",
                        b"null",
                        b"\\ud800",
                        b"\\u001b",
                    )
                ),
                bytes(changed[chance.randrange(len(changed)) :][:size]),
                b"",
            )
        )
        how = chance.random()
        if how < 0.75:
            changed[at : at + len(new) * (how < 0.4) + (not new) * size] = new
        elif how < 0.95:
            changed[at] ^= 1 << chance.randrange(8)
        else:
            del changed[at + 1 :]
    return bytes(changed)


@pytest.fixture
def target(tmp_path):
    return shutil.copytree(SAMPLE, tmp_path / "step0" / "rank")


@pytest.mark.slow
def test_changed_bytes_give_an_answer_or_our_error(target, tmp_path, capsys):
    chance = random.Random(20260101)
    golden = read(SAMPLE)
    rows = sum(len(call.records) for call in golden.calls)
    documents = [target / name for name in ("dump.json", "stack.json", "construct.json")]
    tensors = sorted((target / "dump_tensor_data").glob("*.npy"))
    refused: list[tuple[Path, str]] = []
    clean = 0
    for number in range(TIMES):
        path = chance.choice((documents[0], documents[0], *documents, chance.choice(tensors)))
        whole = path.read_bytes()
        changed = change(whole, chance)
        path.write_bytes(changed)
        out = tmp_path / "out"
        request = Request(
            target, SAMPLE, out, FORMATS[number % 3], with_stack=True, highlight=True, diff_analyze=True, workers=1
        )
        try:
            result = run_request(request)
        except MsprobeError as err:
            refused.append((path, str(err)))
        else:
            (outcome,) = result.outcomes
            assert Path(outcome.table).exists()
            assert sum(outcome.counts.values()) >= rows - 60
            text = "\n".join(result.lines())
            assert not any(sign in text for sign in "\x1b\x07\x00"), (number, path)
            clean += result.is_clean
        finally:
            path.write_bytes(whole)
            shutil.rmtree(out, ignore_errors=True)
    assert [printed for path, printed in refused if str(path) not in printed] == []
    # All three happen: changes that break a file, that are found, and that lie where nothing is compared.
    assert 20 < len(refused) < TIMES - 60
    assert clean > 20
