"""What users of msprobe ask for: a known name leads to what it means there, and never to a name that looks like it."""

import json

import pytest

from msprobe.base.sections import SECTIONS, ExceptionDumpSettings, FreeBenchmarkSettings, OverflowCheckSettings
from msprobe.base.setting import settings_of
from msprobe.base.settings import Settings, collect_options, load
from msprobe.cli import VERBS, main

THEIRS = [
    # of the command tables of msprobe 8.1 and 26; what is not there must not lead to something that looks like it
    *("run_overflow_check", "parse", "offline_dump", "install_deps"),
]


LISTED = ", ".join(name for name, verb in VERBS.items() if not verb.is_older)


def output_of(capsys, *words):
    assert main(words) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


@pytest.mark.parametrize("verb", THEIRS)
def test_a_command_of_msprobe_says_what_to_do_here(verb, capsys):
    line = output_of(capsys, verb, "-i", "x")
    assert line.startswith(f"msprobe: this version has no command '{verb}': ")
    assert "did you mean" not in line
    assert line.endswith(f"(this version has: {LISTED})")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        *(("offline-dmp", "offline_dump"), ("Parse", "parse")),
    ],
)
def test_a_misspelled_command_of_msprobe_is_taken_for_it(typed, expected, capsys):
    assert f"no command '{typed}' or '{expected.replace('-', '_')}': " in output_of(capsys, typed)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        *(("compre", "compare"), ("Config-check", "config-check"), ("mergeresult", "merge-result")),
        *(("verify_collection", "verify-collection"), ("rollout", "rollout-check"), ("docter", "doctor")),
        *(("overflow_chek", "overflow-check"), ("overflowcheck", "overflow-check"), ("nan_analyse", "overflow-check")),
        *(("graph-visualise", "graph-visualize"), ("grap", "graph")),
        *(("op_generat", "op-generate"), ("run_uts", "acc-check"), ("accheck", "acc-check")),
    ],
)
def test_a_misspelled_command_of_ours_is_named(typed, expected, capsys):
    assert output_of(capsys, typed) == f"msprobe: there is no command '{typed}'; did you mean {expected}?"


def test_a_word_near_nothing_lists_what_there_is(capsys):
    assert f"this version has: {LISTED}" in output_of(capsys, "zzz")


# ---- tasks and sections


@pytest.mark.parametrize("task", ["struct", "nan_check", "profile", "statistic", "", "Structure", "run_ut", "gradient"])
def test_an_unknown_task_is_refused_with_the_known_ones(config, task, refusal):
    message = refusal(config(task=task))
    for known in ("statistics", "tensor", "structure"):
        assert f'"{known}"' in message


@pytest.mark.parametrize("section", ["struct", "statistic", "nan_check", "overflow"])
def test_an_unknown_section_is_refused_with_what_is_known(config, section, refusal):
    message = refusal(config(**{section: {}}))
    assert f'unknown setting "{section}"' in message
    assert "did you mean" in message or 'choose from "task", "dump_path"' in message


@pytest.mark.parametrize("key", ["nan_check", "shape_list", "output_mode", "rollout_check"])
def test_a_part_that_many_names_share_brings_none_near(config, key, refusal):
    message = refusal(config(**{key: []}))
    assert "did you mean" not in message
    assert 'choose from "task", "dump_path"' in message


def test_no_task_without_values_means_structure(tmp_path):
    assert not collect_options(load(task="structure", dump_path=str(tmp_path))).values
    for task, section in (("overflow_check", OverflowCheckSettings()), ("exception_dump", ExceptionDumpSettings())):
        settings = Settings(task=task, dump_path=tmp_path, level="L2", section=section)
        assert not collect_options(settings).any_file
        watching = collect_options(Settings(task=task, dump_path=tmp_path, level="mix", section=section))
        assert watching.any_file
        assert watching.values
    second_runs = Settings(task="free_benchmark", dump_path=tmp_path, level="L1", section=FreeBenchmarkSettings())
    assert not collect_options(second_runs).values


def test_a_setting_near_one_of_a_section_leads_there(config, refusal):
    assert 'did you mean "summary_mode" in section "statistics"?' in refusal(config(sumary_mode="md5"))


# ---- settings without effect: the words hold with either framework

ELSEWHERE = {
    # every key of the configuration that only msprobe's tool for PyTorch reads, with a value that is not its default
    **{"enable_dataloader": True, "dump_enable": True, "risk_level": "ALL", "custom_op_namespaces": ["ns"]},
    "tensor": {
        **{"online_run_ut": True, "nfs_path": "/nfs", "host": "h", "port": 1, "bench_path": "/b", "diff_nums": 3},
        "backward_input": "x",
    },
}


def test_settings_that_only_msprobe_reads_say_so_for_either_framework(config, notes):
    load(config(task="tensor", **ELSEWHERE))
    printed = [note for note in notes() if "has no effect here" in note]
    keys = [key for key in ELSEWHERE if key != "tensor"] + [f"tensor.{key}" for key in ELSEWHERE["tensor"]]
    assert len(printed) == len(keys)
    for key, note in zip(sorted(keys), sorted(printed, key=lambda note: note.split(", ")[1]), strict=True):
        assert f", {key}: the setting has no effect here, " in note
        assert note.endswith("; in mindstudio-probe, only its tool for PyTorch reads it"), (
            "it is not this one's, with PyTorch either"
        )


def test_what_is_of_kernels_says_whose(config, notes):
    load(config(statistics={"device": "device", "precision": "low"}))
    printed = [note for note in notes() if "has no effect here" in note]
    assert len(printed) == 2
    assert all("only kernel dumps use it (level L2 of MindSpore)" in note for note in printed)


def test_no_reason_speaks_of_one_framework_as_this_one():
    for owner in (Settings, *SECTIONS.values()):
        for key, each in settings_of(owner).items():
            assert "the PyTorch tool" not in each.metadata["inert"], key


def test_a_monitors_file_belongs_to_the_monitor(tmp_path, refusal):
    path = tmp_path / "monitor.json"
    path.write_text(json.dumps({"targets": {}, "wg_distribution": True, "ops": ["norm"]}))
    assert "pass it to TrainerMon, and pass the configuration of a collection to PrecisionDebugger" in refusal(path)
