"""What a user says of names, within one framework too: pairs, places, what is said of rules that match nothing."""

import csv

import pytest
import yaml

from msprobe.base.errors import UsageError
from msprobe.cli import main
from msprobe.compare.entry import compare as compare_from_python
from msprobe.compare.locate.find import locate
from msprobe.compare.match.user_mapping import user_pairs
from msprobe.compare.run import compare
from msprobe.mapping.user_files import user_mapping


def found(target, golden, **options):
    pair = target.dump(), golden.dump()
    rules = user_pairs(user_mapping(options), *pair)
    comparison = compare(*pair, by_user=rules)
    return comparison, rules


def partners(comparison):
    return {
        c.target.name: (c.golden.name, c.matched_by)
        for c in comparison.pairs
        if c.target is not None and c.golden is not None
    }


@pytest.fixture
def written(tmp_path):
    """`written("cell", text)`: the path of a mapping file."""

    def make(name, text):
        path = tmp_path / f"{name}.yaml"
        path.write_text(text, "utf-8")
        return str(path)

    return make


class TestCells:
    def sides(self, builder):
        target, golden = builder("t"), builder("g")
        for side, one, two in ((target, "a.Dense", "b.Dense"), (golden, "x.Dense", "y.Dense")):
            for cell, value in ((one, 1.0), (two, 2.0)) if side is target else ((two, 2.0), (one, 1.0)):
                side.call(f"Cell.{cell}.forward.0", [value], [value + 1], parameters={"weight": value})
                side.gradients(f"Cell.{cell}.parameters_grad.0", weight=value)
        return target, golden

    def test_a_rule_fixes_pairs_also_where_the_order_says_otherwise(self, builder, written):
        path = written("cell", "a.Dense: x.Dense\nb.Dense: y.Dense\n")
        comparison, rules = found(*self.sides(builder), cell_mapping=path)
        assert partners(comparison) == {
            "Cell.a.Dense.forward.0": ("Cell.x.Dense.forward.0", "mapping"),
            "Cell.a.Dense.parameters_grad.0": ("Cell.x.Dense.parameters_grad.0", "mapping"),
            "Cell.b.Dense.forward.0": ("Cell.y.Dense.forward.0", "mapping"),
            "Cell.b.Dense.parameters_grad.0": ("Cell.y.Dense.parameters_grad.0", "mapping"),
        }
        assert comparison.is_clean
        assert locate(comparison).findings == ()
        assert rules.unused == ()

    def test_a_rule_may_be_wrong_and_then_values_differ(self, builder, written):
        path = written("cell", "a.Dense: y.Dense\nb.Dense: x.Dense\n")
        comparison, _ = found(*self.sides(builder), cell_mapping=path)
        assert comparison.counts["error"] == 8

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            ("c.Dense: x.Dense", "the target has no cell c.Dense"),
            ("a.Dense: z.Dense", "the golden has no cell z.Dense"),
        ],
    )
    def test_a_rule_that_matches_nothing_is_said_with_its_file(self, builder, written, text, message):
        path = written("cell", text)
        _, rules = found(*self.sides(builder), cell_mapping=path)
        (sentence,) = rules.unused
        assert sentence.startswith(f"{path}: {text.split(':')[0]} matches nothing: ")
        assert message in sentence


class TestApis:
    def sides(self, builder, value):
        target, golden = builder("t"), builder("g")
        for n in (0, 1):
            target.call(f"Mint.attend.{n}.forward", [1.0, 2.0, value(4), 9.0], [3.0, 8.0])
            golden.call(f"Torch.fused.{n}.forward", [2.0, 1.0], [5.0, 3.0], kwargs={"heads": value(4)})
        return target, golden

    RULE = """
ms_api: Mint.attend
pt_api: Torch.fused
ms_args: [0, 1, 2]
pt_args: [1, 0, heads]
ms_outputs: [0]
pt_outputs: [1]
"""

    def test_arguments_go_where_the_lists_say_and_the_rest_stays_alone(self, builder, value, written):
        comparison, rules = found(*self.sides(builder, value), api_mapping=written("api", self.RULE))
        assert partners(comparison)["Mint.attend.1.forward"] == ("Torch.fused.1.forward", "mapping")
        rows = [
            (p.target and ".".join(p.target.path), p.golden and ".".join(p.golden.path))
            for p in comparison.pairs[0].pairs
        ]
        assert sorted(rows, key=str) == sorted(
            [("0", "1"), ("1", "0"), ("2", "heads"), ("3", None), ("0", "1"), ("1", None), (None, "0")], key=str
        )
        assert comparison.counts["pass"] == 8
        assert comparison.counts["error"] == 0
        assert rules.unused == ()

    def test_a_rule_that_matches_nothing_is_said(self, builder, value, written):
        path = written("api", "- {ms_api: Mint.sine, pt_api: Torch.sin}\n- {ms_api: Mint.attend, pt_api: Torch.none}\n")
        _, rules = found(*self.sides(builder, value), api_mapping=path)
        assert [s.partition(" matches nothing: ")[2] for s in rules.unused] == [
            "the target has no call of Mint.sine",
            "the golden has no call of Torch.none",
        ]


class TestRows:
    def sides(self, builder):
        target, golden = builder("t"), builder("g")
        target.call("Mint.add.0.forward", [1.0, 2.0], [3.0])
        golden.call("Mint.add.0.forward", [2.0, 1.0], [3.0])
        golden.call("Mint.mul.0.forward", [7.0], [9.0])
        target.call("Mint.mul.0.forward", [7.0], [8.0])
        return target, golden

    def test_rows_are_paired_by_name_and_others_with_themselves(self, builder):
        rows = {"Mint.add.0.forward.input.0": "Mint.add.0.forward.input.1"}
        rows["Mint.add.0.forward.input.1"] = "Mint.add.0.forward.input.0"
        comparison, _ = found(*self.sides(builder), data_mapping=rows)
        names = [(j.pair.target.name, j.pair.golden.name, j.grade) for c in comparison.calls for j in c.judged]
        assert names[:3] == [
            ("Mint.add.0.forward.input.0", "Mint.add.0.forward.input.1", "pass"),
            ("Mint.add.0.forward.input.1", "Mint.add.0.forward.input.0", "pass"),
            ("Mint.add.0.forward.output.0", "Mint.add.0.forward.output.0", "pass"),
        ]

    def test_rows_of_calls_that_are_no_pair_keep_their_names_in_the_table(self, builder, tmp_path):
        target, golden = self.sides(builder)
        outcomes = compare_from_python(
            {"npu_path": str(target.write()), "bench_path": str(golden.write())},
            tmp_path / "out",
            auto_analyze=False,
            format="csv",
            data_mapping={"Mint.mul.0.forward.output.0": "Mint.add.0.forward.output.0"},
        )
        with open(outcomes[0].table, encoding="utf-8-sig", newline="") as file:
            rows = {row["NPU Name"]: row for row in csv.DictReader(file)}
        assert rows["Mint.mul.0.forward.output.0"]["Bench Name"] == "Mint.add.0.forward.output.0"
        assert rows["Mint.add.0.forward.output.0"]["Bench Name"] == "N/A"

    def test_a_row_that_is_not_there_is_said(self, builder):
        _, rules = found(*self.sides(builder), data_mapping={"none": "x", "Mint.add.0.forward.input.0": "none"})
        assert [s.partition(" matches nothing: ")[2] for s in rules.unused] == [
            "the target has no record none",
            "the golden has no record none",
        ]


class TestLayers:
    def sides(self, builder):
        target, golden = builder("t"), builder("g", framework="pytorch")
        for side, cell, inner in (
            (target, "Cell.net.attn.Attention.forward.0", "Mint.matmul.0.forward"),
            (golden, "Module.model.self_attention.SelfAttn.forward.0", "Torch.matmul.4.forward"),
        ):
            side.call(inner, [1.0, 2.0], [3.0], parent=cell)
            side.call(cell, [1.0], [3.0])
        return target, golden

    RULES = "TopLayer:\n  net.attn: model.self_attention(SelfAttn)\n"

    def test_calls_are_paired_by_their_scope(self, builder, written):
        comparison, rules = found(*self.sides(builder), layer_mapping=written("layer", self.RULES))
        assert partners(comparison) == {
            "Mint.matmul.0.forward": ("Torch.matmul.4.forward", "mapping"),
            "Cell.net.attn.Attention.forward.0": ("Module.model.self_attention.SelfAttn.forward.0", "mapping"),
        }
        assert rules.unused == ()

    def test_the_rows_that_it_pairs_are_written_beside_the_table_and_can_be_given_back(
        self, builder, written, tmp_path
    ):
        target, golden = self.sides(builder)
        sides = ["-tp", str(target.write()), "-gp", str(golden.write()), "--format", "csv"]
        assert main(["compare", *sides, "-o", str(tmp_path / "one"), "-lm", written("layer", self.RULES)]) == 0
        (file,) = (tmp_path / "one").glob("data_mapping_*.yaml")
        rows = yaml.safe_load(file.read_text("utf-8"))
        assert rows["Mint.matmul.0.forward.input.1"] == "Torch.matmul.4.forward.input.1"
        assert len(rows) == 5
        assert main(["compare", *sides, "-o", str(tmp_path / "two"), "-dm", str(file)]) == 0
        assert not list((tmp_path / "two").glob("data_mapping_*.yaml"))

    def test_a_class_that_the_target_has_not_is_said(self, builder, written):
        _, rules = found(*self.sides(builder), layer_mapping=written("layer", self.RULES + "Block:\n  a: b\n"))
        (sentence,) = rules.unused
        assert "Block matches nothing: the target has no cell of class Block" in sentence


class TestCommand:
    def test_files_together(self, builder, written, tmp_path, capsys):
        target, golden = TestCells().sides(builder)
        target.call("Mint.sine.0.forward", [1.0], [2.0])
        golden.call("Mint.sin.0.forward", [1.0], [2.0])
        rules = ["-cm", written("cell", "a.Dense: x.Dense\nb.Dense: y.Dense\nc.Dense: y.Dense")]
        rules += ["-am", written("api", "{ms_api: Mint.sine, pt_api: Mint.sin}"), "-lm"]
        rules += ["-dm", written("data", "none: none")]
        sides = ["-tp", str(target.write()), "-gp", str(golden.write()), "-o", str(tmp_path / "out"), "--format", "csv"]
        assert main(["compare", *sides, *rules]) == 0
        captured = capsys.readouterr()
        assert "no difference" in captured.out
        assert "c.Dense matches nothing" in captured.err
        assert "none matches nothing" in captured.err

    def test_a_mistake_in_a_file_ends_with_2_before_anything_is_read(self, written, tmp_path, capsys):
        rules = ["-tp", "nowhere", "-gp", "nowhere", "-cm", written("cell", "a: [b]")]
        assert main(["compare", *rules]) == 2
        assert 'cell.yaml: a: ["b"]: both must be names' in capsys.readouterr().err.replace('"a"', "a")

    def test_a_transform_that_fits_no_record_ends_with_2(self, builder, tensor, written, tmp_path, capsys):
        target, golden = builder("t"), builder("g")
        for side in (target, golden):
            side.call("Mint.add.0.forward", [tensor(1.0)], [tensor(2.0)])
        row = "Mint.add.0.forward.output.0"
        rule = written("data", f'{row}: {{to: {row}, transform: "transpose(9, 0)"}}')
        sides = ["-tp", str(target.write()), "-gp", str(golden.write()), "-o", str(tmp_path / "out")]
        assert main(["compare", *sides, "-dm", rule]) == 2
        logged = capsys.readouterr().err
        assert row in logged
        assert "transform 'transpose(9, 0)'" in logged
        assert "of shape [2, 2]" in logged

    def test_kernels_and_npy_files_take_no_mapping(self, tmp_path, capsys):
        (tmp_path / "a").mkdir()
        (tmp_path / "compare.json").write_text(
            f'{{"npu_path": "{tmp_path}", "bench_path": "{tmp_path}", "common": true}}'
        )
        assert main(["compare", "-i", str(tmp_path / "compare.json"), "-cm"]) == 2
        assert "mapping files apply to calls" in capsys.readouterr().err

    def test_python_says_which_keyword_is_wrong(self):
        with pytest.raises(UsageError, match="compare: api_mapping: 3 is not a file path; pass a path"):
            compare_from_python({"npu_path": "a", "bench_path": "b"}, "out", api_mapping=3)
