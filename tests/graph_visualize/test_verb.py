"""`msprobe graph_visualize`: what cannot be meant is said, with what to do."""

import odd_dumps
import pytest
from drawings import SAMPLES
from made_dumps import forward, tensor, write

from msprobe.cli import main


@pytest.fixture
def refused(tmp_path, capsys):
    """The one line of a command that is refused; nothing may be written."""

    def line(*words):
        assert main(["graph_visualize", *map(str, words), "-o", str(tmp_path / "out")]) == 2
        assert not list(tmp_path.glob("out/*.db*"))
        (said,) = [text for text in capsys.readouterr().err.splitlines() if text.startswith("msprobe graph_visualize:")]
        return said

    return line


def test_functions_alone_are_no_network(refused, sample):
    said = refused("-tp", sample("ms_L1_stat"))
    assert "level L1" in said
    assert "collect with level L0 or mix" in said


def test_nothing_there(refused, tmp_path):
    assert "there is no such file or folder" in refused("-tp", tmp_path / "none")


def test_saves_are_no_dump(refused):
    assert "no dump of calls" in refused("-tp", SAMPLES.parents[1] / "kernel_dump")


def test_ranks_of_a_layout_that_are_not_there_are_said(refused, sample):
    assert "of the 4 ranks" in refused("-tp", sample("ms_mix_stat"), "--rank_size", "4", "--tp", "2")


def test_nothing_in_common(refused, tmp_path):
    a, b = (odd_dumps.ranks(tmp_path / name) for name in "ab")
    (b / "step0").rename(b / "step7")
    assert "have nothing in common" in refused("-tp", a, "-gp", b)


def test_a_mapping_that_is_none_is_said(refused, sample, tmp_path):
    (tmp_path / "layers.yaml").write_text("- a\n")
    said = refused("-tp", sample("ms_mix_stat"), "-gp", sample("ms_mix_stat"), "-lm", tmp_path / "layers.yaml")
    assert "layers.yaml" in said


def test_ranks_of_different_tasks_are_refused(refused, tmp_path):
    for rank, more in ((0, {}), (1, {"md5": "00ff00ff"})):
        data = {"Cell.a.A.forward.0": forward([tensor(**more)], [tensor(**more)])}
        write(tmp_path / "a" / "step0" / f"rank{rank}", data)
    assert "other values than the ranks before it" in refused("-tp", tmp_path / "a", "-gp", tmp_path / "a")


def test_options_of_msprobe_that_change_nothing_are_accepted(draw, sample):
    draw("-tp", sample("ms_mix_stat"), "-cs", "-tensor_log", "-progress_log")


def test_two_in_one_second_get_two_names(draw, sample):
    assert draw("-tp", sample("ms_mix_stat")).path != draw("-tp", sample("ms_mix_stat")).path
