"""`base/memory.py`: how much a process may still take."""

import pytest

from msprobe.base import memory

GIB = 1 << 30


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine of which the kernel tells what the test says."""
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CGROUP", tmp_path / "cgroup")

    def make(meminfo=None):
        if meminfo is not None:
            (tmp_path / "meminfo").write_text(meminfo)
        return tmp_path

    return make


def test_the_machine_tells():
    assert 1 << 24 < memory.available_memory() < 1 << 50


def test_without_a_container_the_machine_counts(machine):
    machine(meminfo=f"MemTotal:  99 kB\nMemAvailable:   {8 * GIB >> 10} kB\n")
    assert memory.available_memory() == 8 * GIB


def test_a_container_has_its_share_less_what_is_used_plus_what_can_be_given_back(machine):
    place = machine(meminfo=f"MemAvailable: {64 * GIB >> 10} kB\n") / "cgroup"
    place.mkdir()
    (place / "memory.max").write_text(f"{10 * GIB}\n")
    (place / "memory.current").write_text(f"{6 * GIB}\n")
    (place / "memory.stat").write_text(f"anon 5\ninactive_file {GIB}\n")
    assert memory.available_memory() == 5 * GIB
    (place / "memory.max").write_text("max\n")
    assert memory.available_memory() == 64 * GIB


def test_a_container_of_the_older_kind(machine):
    place = machine(meminfo=f"MemAvailable: {64 * GIB >> 10} kB\n") / "cgroup" / "memory"
    place.mkdir(parents=True)
    (place / "memory.limit_in_bytes").write_text(f"{4 * GIB}\n")
    (place / "memory.usage_in_bytes").write_text(f"{3 * GIB}\n")
    assert memory.available_memory() == GIB
    (place / "memory.usage_in_bytes").write_text(f"{5 * GIB}\n")
    assert memory.available_memory() == 0


def test_where_nobody_tells_it_is_little(machine):
    machine()
    assert memory.available_memory() == GIB
