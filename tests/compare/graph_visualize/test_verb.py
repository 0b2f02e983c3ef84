"""`msprobe graph-visualize`: what cannot be meant is said, with what to do."""

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
        (said,) = [text for text in capsys.readouterr().err.splitlines() if text.startswith("msprobe graph-visualize:")]
        return said

    return line


def test_functions_alone_are_no_network(refused, sample):
    said = refused("-tp", sample("ms_L1_stat"))
    assert "level L1" in said
    assert "collect with level L0 or mix" in said


def test_nothing_there(refused, tmp_path):
    assert "no such file or folder" in refused("-tp", tmp_path / "none")


def test_saves_are_no_dump(refused):
    assert "not a dump of calls" in refused("-tp", SAMPLES.parents[1] / "kernel_dump")


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
    assert "other values than the previous ranks" in refused("-tp", tmp_path / "a", "-gp", tmp_path / "a")


def test_options_of_msprobe_that_change_nothing_are_accepted(draw, sample):
    draw("-tp", sample("ms_mix_stat"), "-cs", "-tensor_log", "-progress_log")


def test_two_in_one_second_get_two_names(draw, sample):
    assert draw("-tp", sample("ms_mix_stat")).path != draw("-tp", sample("ms_mix_stat")).path


def ranks_of_one_task(folder, *broken):
    """Three ranks, those in `broken` with a dump.json that is no JSON."""
    for rank in range(3):
        write(folder / "step0" / f"rank{rank}", {"Cell.a.A.forward.0": forward([tensor()], [tensor()])})
        if rank in broken:
            (folder / "step0" / f"rank{rank}" / "dump.json").write_text("{")
    return folder


@pytest.mark.parametrize("golden", [False, True])
def test_a_rank_that_cannot_be_read_does_not_stop_the_others(tmp_path, draw, caplog, capsys, golden):
    target = ranks_of_one_task(tmp_path / "a", 1)
    words = ["-gp", ranks_of_one_task(tmp_path / "b")] if golden else []
    drawn = draw("-tp", target, *words, code=1)
    assert drawn.config["rank_list"] == [0, 2]
    assert "step 0, rank 1 is not drawn: " in caplog.text
    assert capsys.readouterr().out.splitlines()[-1] == ("drawn; 1 could not be judged: dumps that cannot be read (1)")


def test_where_no_rank_can_be_read_the_command_is_refused(refused, tmp_path):
    assert "rank" in refused("-tp", ranks_of_one_task(tmp_path / "a", 0, 1, 2))


def test_the_older_files_are_of_the_ranks_that_can_be_read(tmp_path):
    import json

    (tmp_path / "compare.json").write_text(json.dumps({"npu_path": str(ranks_of_one_task(tmp_path / "a", 0))}))
    out = tmp_path / "out"
    assert main(["graph", "-i", str(tmp_path / "compare.json"), "-o", str(out)]) == 1
    assert sorted(path.name.rpartition("_")[0] for path in out.glob("*.vis")) == ["build_rank1", "build_rank2"]
