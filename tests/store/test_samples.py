"""Samples of tensors: which elements they have, and that they are read as they were written."""

import zlib

import numpy as np
import pytest

from msprobe.base.errors import DumpError
from msprobe.store.layout import SAMPLES
from msprobe.store.samples import MOST, positions, read_samples, sample_of, write_samples


def mixed(state):
    """The output of splitmix64 for a state, in Python's integers."""
    mask = 2**64 - 1
    z = (state + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return z ^ (z >> 31)


def test_the_generator_is_splitmix64():
    """The first output for the seed 0 is published; CRC-32 of an empty name is 0."""
    assert mixed(0) == 0xE220A8397B1DCDAF
    assert positions("", 2**62, 3).tolist() == [mixed(n) % 2**62 for n in range(3)]


@pytest.mark.parametrize("count", [65, 1000, 10**9])
def test_places_follow_from_the_name(count):
    name = "Functional.add.0.forward.input.0"
    seed = zlib.crc32(name.encode()) << 32
    found = positions(name, count, 64).tolist()
    assert found == [mixed(seed + n) % count for n in range(64)]
    assert positions(name, count, 8).tolist() == found[:8]
    assert positions("Functional.add.1.forward.input.0", count, 64).tolist() != found


def test_a_small_tensor_is_stored_whole_and_in_order():
    assert positions("a", 5, 64).tolist() == [0, 1, 2, 3, 4]
    assert positions("a", 64, 64).tolist() == list(range(64))
    assert positions("a", 0, 64).tolist() == []


ARRAYS = {
    "large": np.arange(1000, dtype=np.float32).reshape(10, 100) / 7,
    "transposed": (np.arange(1000, dtype=np.float64).reshape(10, 100) / 7).T,
    "odd values": np.array([np.nan, np.inf, -np.inf, -0.0]),
    "integers": np.array([[1, -2], [2**40, 0]]),
    "booleans": np.array([True, False]),
    "complex": np.array([3 + 4j, 0j]),
    "scalar": np.array(2.5, np.float16),
    "empty": np.zeros((0, 3), np.float32),
}


def test_samples_are_read_as_they_were_written(tmp_path):
    samples = {name: sample_of(name, array) for name, array in ARRAYS.items()}
    samples["shared"] = samples["large"]
    write_samples(tmp_path, samples)
    found = read_samples(tmp_path)
    assert list(found) == list(samples)
    for name, sample in samples.items():
        assert (found[name].drawn_for, found[name].count, found[name].digest) == (
            *(sample.drawn_for, sample.count),
            sample.digest,
        )
        assert np.array_equal(found[name].elements, sample.elements, equal_nan=True)
    assert found["shared"] is found["large"]
    assert found["complex"].elements.tolist() == [5.0, 0.0]
    assert found["integers"].elements.tolist() == [1.0, -2.0, 2.0**40, 0.0]
    large = ARRAYS["large"].reshape(-1)
    assert found["large"].elements.tolist() == [float(large[at]) for at in positions("large", 1000, MOST)]


def test_elements_are_in_c_order_whatever_the_strides():
    array = ARRAYS["transposed"]
    at = positions("transposed", array.size, MOST)
    assert sample_of("transposed", array).elements.tolist() == [array[n // 10, n % 10] for n in at.tolist()]
    assert sample_of("a", array).digest == sample_of("b", np.ascontiguousarray(array)).digest


def test_no_file_is_no_samples_and_a_damaged_one_is_refused(tmp_path):
    assert read_samples(tmp_path) == {}
    (tmp_path / SAMPLES).write_bytes(b"PAR1")
    with pytest.raises(DumpError, match="is damaged"):
        read_samples(tmp_path)
