"""The section msprobe_config: its fields, where it may stand, and what is said of what cannot be meant."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from msprobe.base.errors import SettingsError
from msprobe.rl.settings import FlowSettings, load

DOCUMENTED = {
    "msprobe": False,
    "dump_path": "./msprobe_dump",
    "key_data_dump": False,
    "configurations_dump": False,
    "actor_infer_dump": False,
    "token_range_start": 0,
    "token_range_end": 0,
    "actor_train_dump": False,
    "reference_dump": False,
    "critic_train_dump": False,
    "step_start": 0,
    "step_end": 0,
}
OTHER = {
    **{key: True for key, value in DOCUMENTED.items() if value is False},
    **{"dump_path": "elsewhere", "token_range_start": 1, "token_range_end": 3, "step_start": 2, "step_end": 2},
}


def as_yaml(config):
    lines = [f"  {key}: {str(value).lower() if isinstance(value, bool) else value}" for key, value in config.items()]
    return "\n".join(["trainer: {lr: 1.0e-3}", "msprobe_config:", *lines, ""])


def fields(settings):
    return {key: getattr(settings, key) for key in DOCUMENTED}


def test_what_is_not_given_has_the_documented_default():
    assert fields(load({})) == {**DOCUMENTED, "dump_path": Path("msprobe_dump").absolute()}
    assert load(None) == load({}) == FlowSettings()
    assert load({"dump_path": None, "step_end": None}) == load({}), "null is not given"


@dataclass
class Config:
    """As frameworks write them: the fields, and others of their own."""

    msprobe: bool = True
    key_data_dump: bool = True
    learning_rate: float = 1e-3


class Whole:
    def __init__(self, section):
        self.trainer, self.msprobe_config = {"lr": 1}, section


def test_the_section_is_taken_from_whatever_holds_it(tmp_path):
    file = tmp_path / "rl.yaml"
    file.write_text(as_yaml(OTHER))
    config = [OTHER, {"msprobe_config": OTHER, "trainer": {}}, SimpleNamespace(**OTHER, other=object())]
    config += [Whole(OTHER), Whole(SimpleNamespace(**OTHER)), str(file), file]
    for each in config:
        assert fields(load(each)) == {**OTHER, "dump_path": Path("elsewhere").absolute()}
    assert load(Config()) == load({"msprobe": True, "key_data_dump": True}), "of an object the known names are read"
    (tmp_path / "empty.yaml").write_text("msprobe_config:\n")
    assert load(tmp_path / "empty.yaml") == load({})


@pytest.mark.parametrize(
    ("config", "what"),
    [
        ({"mspobe": True}, 'config_init, msprobe_config.mspobe: unknown setting "mspobe"; did you mean "msprobe"?'),
        ({"keydata_dump": True}, 'did you mean "key_data_dump"?'),
        ({3: True, "msprobe": True}, 'unknown setting "3"'),
        ({"trainer": {}, "data": {}}, "has none of the fields of msprobe_config; pass a dict"),
        ({"msprobe": "true"}, '"true" is not a boolean; write true or false, without quotation marks'),
        ({"msprobe": "yes"}, 'msprobe_config.msprobe: "yes" is not a boolean; write true or false'),
        ({"dump_path": 5}, "msprobe_config.dump_path: 5 is not a path"),
        ({"step_start": -1}, "msprobe_config.step_start: -1 is out of range; choose numbers from 0 to 1000000"),
        ({"step_end": "3"}, 'msprobe_config.step_end: "3" is not a number; write a non-negative integer'),
        ({"token_range_end": True}, "msprobe_config.token_range_end: true is not a number"),
        ({"step_start": 4, "step_end": 3}, "msprobe_config.step_end: 3 is less than step_start, 4; both ends are"),
        ({"token_range_start": 1}, "msprobe_config.token_range_end: 0 is less than token_range_start, 1"),
        ({"stage_configs": ["x"]}, 'msprobe_config.stage_configs: ["x"] is not an object'),
        ({"stage_configs": {"actor_updat": {}}}, 'unknown stage "actor_updat"; did you mean "actor_update"?'),
        ({"stage_configs": {"actor_update": 3}}, "actor_update: 3 is neither a path nor an object"),
        (object(), "has none of the fields of msprobe_config; pass a dict, an object with these fields, or the path"),
        ("no/such.yaml", "no/such.yaml: the configuration of the flow cannot be read (No such file or directory)"),
    ],
)
def test_what_cannot_be_meant_is_said_with_its_place_and_a_remedy(config, what):
    with pytest.raises(SettingsError) as refused:
        load(config)
    assert what in str(refused.value)


def test_numbers_of_numpy_are_numbers():
    assert load({"step_start": np.int64(2), "step_end": np.int32(3)}) == load({"step_start": 2, "step_end": 3})


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "msprobe_confg:\n  msprobe: true\n",
            'the section msprobe_config is missing; did you mean "msprobe_confg"? Rename it',
        ),
        ("trainer: {}\n", "the section msprobe_config is missing; write msprobe_config: and the fields below it"),
        ("- 1\n", "the section msprobe_config"),
        ("msprobe_config: [\n", "is not valid YAML"),
        ("msprobe_config: 5\n", "5 of type int has none of the fields"),
        ("msprobe_config:\n  mspobe: true\n", 'rl.yaml, msprobe_config.mspobe: unknown setting "mspobe"; did you mean'),
    ],
)
def test_what_is_wrong_in_a_file_is_said_with_its_name(text, what, tmp_path):
    (tmp_path / "rl.yaml").write_text(text)
    with pytest.raises(SettingsError) as refused:
        load(tmp_path / "rl.yaml")
    assert what in str(refused.value)
    assert "rl.yaml" in str(refused.value)
