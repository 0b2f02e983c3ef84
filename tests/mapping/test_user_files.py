"""Four files in which a user says which name is which: what they mean, and what is said of a mistake."""

import pytest

from msprobe.base.errors import UsageError
from msprobe.mapping.user_files import NONE, DataRule, LayerRules, UserMapping, user_mapping


@pytest.fixture
def rules_of(tmp_path):
    """`rules_of(api="...")`: the mapping of files with these texts."""

    def make(**texts):
        options = {}
        for name, text in texts.items():
            path = tmp_path / f"{name}.yaml"
            path.write_text(text, "utf-8")
            options[f"{name}_mapping"] = str(path)
        return user_mapping(options, "--")

    return make


API = """
- ms_api: Functional.flash_attention_score
  pt_api: NPU.npu_fusion_attention
  ms_args: [0, 1, 2, 3]
  pt_args: [0, 1, 2, head_num]
  ms_output: [0]
  pt_output: [0]
"""


class TestApis:
    def test_places_are_translated_and_what_is_in_no_list_has_none(self, rules_of):
        (rule,) = rules_of(api=API).apis
        assert (rule.ms_api, rule.pt_api) == ("Functional.flash_attention_score", "NPU.npu_fusion_attention")
        assert rule.place("input", ("3",)) == ("head_num",)
        assert rule.place("input", ("2", "0")) == ("2", "0")
        assert rule.place("input", ("4",)) is None
        assert rule.place("output", ("1",)) is None

    def test_a_part_without_lists_keeps_its_places(self, rules_of):
        (rule,) = rules_of(api=API).apis
        assert rule.place("parameters", ("weight",)) == ("weight",)

    def test_an_index_is_a_whole_part_of_a_path(self, rules_of):
        (rule,) = rules_of(api="{ms_api: Mint.a, pt_api: Torch.b, ms_args: [1], pt_args: [2]}").apis
        assert rule.place("input", ("1", "0")) == ("2", "0")
        assert rule.place("input", ("10",)) is None

    @pytest.mark.parametrize("ending", ["output", "outputs"])
    def test_one_bare_map_and_both_spellings_are_taken(self, rules_of, ending):
        text = f"{{ms_api: Mint.a, pt_api: Torch.b, ms_{ending}: [1], pt_{ending}: [0]}}"
        assert rules_of(api=text).apis[0].place("output", ("1",)) == ("0",)

    @pytest.mark.parametrize("part", ["parameters", "parameters_grad"])
    def test_parameters_and_their_gradients_are_renamed(self, rules_of, part):
        text = f"{{ms_api: Mint.a, pt_api: Torch.b, ms_{part}: [gamma], pt_{part}: [weight]}}"
        assert rules_of(api=text).apis[0].place(part, ("gamma",)) == ("weight",)

    def test_an_entry_with_lists_of_two_lengths_is_left_out_and_said(self, rules_of, capsys):
        text = "- {ms_api: Mint.a, pt_api: Torch.b, ms_args: [0, 1], pt_args: [0]}\n- {ms_api: Mint.c, pt_api: Torch.d}"
        assert [rule.ms_api for rule in rules_of(api=text).apis] == ["Mint.c"]
        assert "ms_args has 2 places, pt_args 1" in capsys.readouterr().err

    def test_a_transform_is_read(self, rules_of):
        text = '{ms_api: Mint.a, pt_api: Torch.b, ms_args: [1], pt_args: [1], transforms: {1: "transpose(1, 0)"}}'
        assert rules_of(api=text).apis[0].transforms == {("1",): "transpose(1, 0)"}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("3", "must be a list of rules"),
            ("[3]", "rule 1: must be a map"),
            ("- {ms_api: Mint.a}", "rule 1: pt_api must be a name"),
            ("- {ms_api: Mint, pt_api: Torch.a}", "ms_api must be a name"),
            ("- {ms_api: Mint.a, pt_api: Torch.a, ms_arg: [0]}", "did you mean ms_args"),
            ("- {ms_api: Mint.a, pt_api: Torch.a, ms_args: [0]}", "only ms_args is given"),
            ("- {ms_api: Mint.a, pt_api: Torch.a, ms_args: 0, pt_args: [0]}", "ms_args must be a list of places"),
            ("- {ms_api: Mint.a, pt_api: Torch.a, ms_args: [-1], pt_args: [0]}", "-1 is not a place"),
            ("- {ms_api: Mint.a, pt_api: Torch.a, ms_args: [0, 0], pt_args: [0, 1]}", "duplicate place"),
            ("- {ms_api: Mint.a, pt_api: Torch.a, ms_output: [0], ms_outputs: [0]}", "have the same meaning"),
            ("- {ms_api: Mint.a, pt_api: Torch.a}\n- {ms_api: Mint.a, pt_api: Torch.b}", "has a rule"),
            ('- {ms_api: Mint.a, pt_api: Torch.a, transforms: {0: "turn(1)"}}', "turn"),
            ("- {ms_api: Mint.a, pt_api: Torch.a, transforms: [0]}", "transforms must be a map"),
        ],
    )
    def test_a_mistake_is_named(self, rules_of, text, message):
        with pytest.raises(UsageError, match=r"api\.yaml: ") as err:
            rules_of(api=text)
        assert message in str(err.value)


class TestCells:
    def test_both_sides_may_have_their_prefix(self, rules_of):
        text = "fc1.Dense: fc1.Linear\nCell.fc2.Dense: Module.fc2.Linear"
        assert rules_of(cell=text).cells == {"fc1.Dense": "fc1.Linear", "fc2.Dense": "fc2.Linear"}

    def test_without_a_file_there_are_no_rules_but_cells_are_paired(self):
        mapping = user_mapping({"cell_mapping": True})
        assert mapping.cells == {}
        assert mapping

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[a]", "must be a map of names"),
            ("a: 1", "both must be names"),
            ("a: b\na: c", "duplicate key 'a'"),
            ("a.B: b\nCell.a.B: c", "duplicate a.B"),
            ("a: [b", "is not valid"),
            ("", "is empty"),
            ("# nothing", "is empty"),
        ],
    )
    def test_a_mistake_is_named(self, rules_of, text, message):
        with pytest.raises(UsageError, match=r"cell\.yaml: ") as err:
            rules_of(cell=text)
        assert message in str(err.value)


class TestLayers:
    @pytest.mark.parametrize("top", ["TopLayer", "Cell"])
    def test_values_are_cut_at_a_parenthesis_and_cell_means_the_top(self, rules_of, top):
        mapping = rules_of(layer=f"{top}:\n  network_with_loss: module(GPTModel)\n")
        assert mapping.layers == LayerRules({"TopLayer": {("network_with_loss",): ("module",)}})

    def test_the_longest_rule_comes_first_and_an_equal_name_last(self, rules_of):
        rules = rules_of(layer="Block:\n  a: x\n  a.b: y.z\n  c: d\n").layers
        assert rules.of("Block", "a") == [(("a", "b"), ("y", "z")), (("a",), ("x",)), (("a",), ("a",))]
        assert rules.of("Other", "a") == [(("a",), ("a",))]

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("- a", "must be a map by class"),
            ("Block: a", "must be a map of names"),
            ("Block: {a: 1}", "both must be names"),
            ("Block: {a..b: c}", "'a..b' is not a path"),
            ("TopLayer: {a: b}\nCell: {c: d}", "have the same meaning"),
        ],
    )
    def test_a_mistake_is_named(self, rules_of, text, message):
        with pytest.raises(UsageError, match=r"layer\.yaml: ") as err:
            rules_of(layer=text)
        assert message.replace("'", '"') in str(err.value).replace("'", '"')


class TestData:
    def test_a_row_may_say_a_transform(self, rules_of):
        found = rules_of(data='a.input.0: b.input.1\nc: {to: d, transform: "transpose(1, 0)"}\n').data
        assert found == {"a.input.0": DataRule("b.input.1"), "c": DataRule("d", "transpose(1, 0)")}

    def test_a_dict_means_the_same(self):
        assert user_mapping({"data_mapping": {"a": "b"}}).data == {"a": DataRule("b")}

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("[a]", "must be a map of rows"),
            ("a: 1", "1 is not the name of a row"),
            ("a: {to: b, by: c}", "unknown key 'by'"),
            ("a: {transform: flatten}", "null is not the name of a row"),
            ("a: {to: b, transform: 3}", "3 is not a transform"),
            ("a: x\nb: y\nc: {to: x}", "a and c are both mapped to x"),
        ],
    )
    def test_a_mistake_is_named(self, rules_of, text, message):
        with pytest.raises(UsageError, match=r"data\.yaml: ") as err:
            rules_of(data=text)
        assert message in str(err.value)

    def test_many_rows_may_have_no_counterpart(self, rules_of):
        assert set(rules_of(data="a: N/A\nb: N/A\n").data) == {"a", "b"}


def test_nothing_given_says_nothing():
    assert user_mapping({}) == user_mapping(dict.fromkeys(("api_mapping", "cell_mapping"), "")) == NONE
    assert not UserMapping()


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UsageError, match=r"none\.yaml: the mapping of cells cannot be read .*check the path"):
        user_mapping({"cell_mapping": tmp_path / "none.yaml"})


def test_what_is_no_text_is_said(tmp_path):
    (tmp_path / "a.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="is not UTF-8"):
        user_mapping({"cell_mapping": tmp_path / "a.yaml"})


def test_nothing_in_a_file_is_run(rules_of):
    with pytest.raises(UsageError, match="is not valid YAML"):
        rules_of(cell="a: !!python/object/apply:os.system ['true']")


@pytest.mark.parametrize(
    ("text", "place"),
    [("a: b\nc: [d", "line 2, column"), ("a: b\na: c", "line 2, column 1"), ("a: \x00", "position 3")],
)
def test_where_a_file_is_no_yaml_the_place_in_it_is_said_and_no_word_of_the_reader(rules_of, text, place):
    with pytest.raises(UsageError, match=rf"cell\.yaml: .*{place}") as err:
        rules_of(cell=text)
    assert "unicode string" not in str(err.value)
