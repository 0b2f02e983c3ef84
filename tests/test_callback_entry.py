"""What an entry of a `callbacks:` list means, and what it cannot mean."""

import re

import pytest

from msprobe.base.errors import SettingsError
from msprobe.callback_entry import entry_of


@pytest.mark.parametrize(
    ("written", "expected"),
    [(2, (2,)), ("2", ("2",)), ("3-5", ("3-5",)), ("0, 3-5 ,9", ("0", "3-5", "9")), ([0, "3-5"], (0, "3-5")), ([], ())],
)
def test_steps_are_a_list_an_element_of_one_or_a_text_of_several(written, expected):
    assert entry_of({"step": written}).step == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [(True, True), ("true", True), (" TRUE", True), (False, False), ("False", False), (0, 0), ("0", 0), ("120", 120)],
)
def test_where_a_training_resumes_is_to_be_found_out_or_a_number(written, expected):
    found = entry_of({"init_step": written}).init_step
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize("wrong", ["yes", "", -1, "-1", 1.5, "1.5", [1], "\u0663", "9" * 5000])
def test_anything_else_is_no_step_to_resume_at(wrong):
    with pytest.raises(SettingsError, match=r'argument "init_step" of MsprobeStep: .* neither a boolean nor a step'):
        entry_of({"init_step": wrong})


@pytest.mark.parametrize("wrong", [0, True, ["body"], {"body": 1}])
def test_a_cell_is_told_by_its_name(wrong):
    with pytest.raises(SettingsError, match=r'argument "network" of MsprobeStep: .* is not the name of a cell'):
        entry_of({"network": wrong})


def test_null_is_not_given():
    keys = ("config_path", "task", "dump_path", "level", "step", "network", "init_step")
    assert entry_of(dict.fromkeys(keys)) == entry_of({})
    assert entry_of({}).debugger == {}


def test_what_is_given_for_a_debugger_is_passed_on_as_it_is():
    arguments = {"level": 7, "dump_path": "./dump", "network": "body", "init_step": True, "task": None}
    assert entry_of(arguments).debugger == {"dump_path": "./dump", "level": 7}


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("levle", 'unknown setting "levle"; did you mean "level"?'),
        ("Dump_Path", 'unknown setting "Dump_Path"; did you mean "dump_path"?'),
        (
            "save_checkpoint_steps",
            'unknown setting "save_checkpoint_steps"; remove it, or choose from "config_path", ',
        ),
        *(
            (key, f'the setting "{key}" is not valid here; move it to the file given by config_path')
            for key in ("rank", "list", "scope", "summary_mode", "statistics", "tensor")
        ),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_or_its_place(key, expected):
    with pytest.raises(SettingsError, match=re.escape(f'argument "{key}" of MsprobeStep: {expected}')):
        entry_of({"level": "L0", key: 1})
