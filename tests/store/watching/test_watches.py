"""What a collection that watches writes, and what it leaves out: calls are described as collectors do it."""

import json

import numpy as np
import pytest

from msprobe.base.errors import reason
from msprobe.base.sections import ExceptionDumpSettings, OverflowCheckSettings, StatisticsSettings, TriggerSettings
from msprobe.base.settings import Settings
from msprobe.cli import main
from msprobe.findings.catalogue import nonfinite as kinds
from msprobe.store.describe import ArrayDescriber
from msprobe.store.reader import read
from msprobe.store.watching.content import Content, judged
from msprobe.store.watching.ring import Ring
from msprobe.store.watching.watches import watch_of
from msprobe.store.writer import Raised, StepFolder

ONES, NAN = np.ones(4, np.float32), np.array([1, np.nan], np.float32)
INF, MINUS = np.array([np.inf], np.float32), np.array([1, -np.inf], np.float32)
N, P, M, NONE = Content.NAN, Content.PLUS, Content.MINUS, Content.NOTHING


class Run:
    """Steps of a training whose calls are told one by one."""

    def __init__(self, folder, task, section, level="mix"):
        self.settings = Settings(task=task, dump_path=folder, level=level, section=section)
        self.folder, self.watch, self.number = folder, watch_of(self.settings), -1
        self.begin()

    def begin(self):
        self.number += 1
        self.step = self.folder / f"step{self.number}" / "rank"
        header = {"task": self.settings.task, "level": self.settings.level, "framework": "mindspore"}
        self.front = StepFolder(self.step, header, self.settings, watch=self.watch).open()
        digests = "md5" if self.settings.task == "statistics" else ""
        self.describer = ArrayDescriber(self.front, saves=True, digests=digests)
        self.stack = self.front.stack(["File /train/net.py, line 3, in construct, \n y = f(x)"])

    def records(self, name, part, values):
        listed = [
            self.describer.array(v, name, f"{part}.{i}", "mindspore.Tensor", "Float32")
            if isinstance(v, np.ndarray)
            else self.describer.plain(v, name, f"{part}.{i}")
            for i, v in enumerate(values)
        ]
        return f"[{','.join(listed)}]"

    def call(self, name, inputs, outputs, parent=None):
        if ".backward" in name:
            text = f'{{"input":{self.records(name, "input", inputs)},"output":{self.records(name, "output", outputs)}}}'
        else:
            text = f'{{"input_args":{self.records(name, "input", inputs)},"input_kwargs":{{}},'
            text += f'"output":{self.records(name, "output", outputs)}}}'
        self.front.call(name, parent, None if ".backward" in name else self.stack, text)

    def end(self):
        self.front.close()
        return self

    @property
    def written(self):
        file = self.step / "dump.json"
        return list(json.loads(file.read_text())["data"]) if file.exists() else None

    @property
    def findings(self):
        return json.loads((self.step / "findings.json").read_text())["findings"]


@pytest.fixture
def overflow(tmp_path):
    return lambda level="mix", nums=-1: Run(
        tmp_path, "overflow_check", OverflowCheckSettings(overflow_nums=nums), level
    )


@pytest.fixture
def trigger(tmp_path):
    return lambda **wanted: Run(tmp_path, "statistics", StatisticsSettings(trigger=TriggerSettings(**wanted)))


@pytest.fixture
def exceptions(tmp_path):
    return lambda **wanted: Run(tmp_path, "exception_dump", ExceptionDumpSettings(**wanted))


# ---- task overflow_check


@pytest.mark.parametrize(
    ("tensors", "numbers", "results", "known", "is_tainted", "kind"),
    [
        (NONE, NONE, N, NONE, False, kinds.MADE),
        (NONE, NONE, M, N | P, True, kinds.MADE),
        (NONE, N, N, NONE, False, kinds.ARGUMENT),
        (NONE, M, M, NONE, False, None),  # masked_fill(x, mask, -inf)
        (NONE, P, P, NONE, False, None),
        (NONE, P, P | N, NONE, False, kinds.ARGUMENT),  # x * inf
        (M, NONE, N, M, False, kinds.OF_INFINITIES),  # the softmax of a row that is masked as a whole
        (M, NONE, N, M, True, None),
        (M, NONE, M, NONE, False, None),  # x + mask
        (N, NONE, N, NONE, False, kinds.RECEIVED),  # the batch, a parameter
        (N, NONE, N, N, True, None),
        (N, NONE, N, NONE, True, None),
        (P, NONE, N, P, False, None),
        (P, N, N, P, False, kinds.RECEIVED),
    ],
)
def test_how_non_finite_results_come_about(tensors, numbers, results, known, is_tainted, kind):
    assert judged(tensors, numbers, results, known, is_tainted) is kind


def test_the_call_that_makes_nan_is_written_and_those_that_pass_it_on_are_not(overflow):
    run = overflow()
    run.call("Mint.sub.0.forward", [ONES], [ONES])
    run.call("Mint.log.0.forward", [ONES], [NAN])
    run.call("Mint.mul.0.forward", [NAN, ONES], [NAN])
    run.call("Mint.exp.0.forward", [ONES], [ONES, INF])  # by itself
    run.end()
    assert run.written == ["Mint.log.0.forward", "Mint.mul.0.forward", "Mint.exp.0.forward"]
    dump = json.loads((run.step / "dump.json").read_text())["data"]
    assert dump["Mint.log.0.forward"]["output"][0]["nan_count"] == 1
    assert dump["Mint.exp.0.forward"]["output"][1]["Max"] == float("inf")
    assert dump["Mint.mul.0.forward"]["input_args"][0]["nan_count"] == 1
    assert "data_name" not in dump["Mint.mul.0.forward"]["output"][0], "what passes it on has statistics only"
    assert np.load(run.step / "dump_tensor_data" / "Mint.exp.0.forward.output.0.npy").tolist() == [1, 1, 1, 1]
    names = [name for group, _ in json.loads((run.step / "stack.json").read_text()).values() for name in group]
    assert len(names) == len(json.loads((run.step / "construct.json").read_text())) == 4, "of every call that ran"
    assert [(f["kind"], f["place"], f["line"]) for f in run.findings] == [
        ("made", "output.0", 3),
        ("made", "output.1", 3),
    ]


def test_after_so_many_calls_nothing_more_is_collected(overflow):
    run = overflow(nums=2)
    ended = []
    run.front.when_over = lambda: ended.append(run.written)
    for number in range(3):
        run.call(f"Mint.log.{number}.forward", [ONES], [NAN])
    assert ended == [["Mint.log.0.forward", "Mint.log.1.forward"]], "the files are whole at once"
    assert run.watch.is_over
    run.end()
    assert run.written == ["Mint.log.0.forward", "Mint.log.1.forward"]


def test_the_files_are_whole_at_each_of_the_first_findings_and_then_no_longer(overflow):
    run = overflow()
    for number in range(120):
        run.call(f"Mint.log.{number}.forward", [ONES], [NAN])
        if number in (0, 50):
            assert len(run.written) == len(run.findings) == number + 1
    assert len(run.findings) == 100
    assert len(run.end().written) == 120


def test_the_batch_and_parameters_are_charged_once(overflow):
    run = overflow()
    run.call("Mint.matmul.0.forward", [NAN, ONES], [NAN])
    run.call("Mint.matmul.1.forward", [NAN, NAN], [NAN])
    run.end()
    assert run.written == ["Mint.matmul.0.forward", "Mint.matmul.1.forward"]
    assert [(f["kind"], f["call"], f["place"]) for f in run.findings] == [
        ("entered", "Mint.matmul.0.forward", "input.0")
    ]


def test_masks_are_left_alone(overflow):
    run = overflow()
    run.call("Mint.masked_fill.0.forward", [ONES, float("-inf")], [MINUS])
    run.call("Mint.add.0.forward", [ONES, MINUS], [MINUS])
    run.call("Mint.softmax.0.forward", [MINUS], [ONES])
    run.end()
    assert run.written == []


def test_collectives_are_always_there_and_without_values_where_all_is_finite(overflow):
    run = overflow()
    run.call("MintDistributed.all_reduce.0.forward", [ONES, "sum"], [ONES])
    run.call("MintDistributed.all_reduce.1.forward", [NAN, "sum"], [NAN])
    run.end()
    first, second = json.loads((run.step / "dump.json").read_text())["data"].values()
    assert first["input_args"] == [
        {"type": "mindspore.Tensor", "dtype": "Float32", "shape": [4]},
        {"type": "str", "value": "sum"},
    ]
    assert second["output"][0]["nan_count"] == 1
    assert read(run.step).calls


@pytest.mark.parametrize(("level", "wanted"), [("mix", []), ("L0", [("made", "Cell.b.B.parameters_grad", "w")])])
def test_gradients_of_parameters_are_charged_to_the_cell_that_received_finite_ones(level, wanted, overflow):
    run = overflow(level)
    run.call("Cell.a.B.backward.0", [NAN], [NAN])
    run.call("Cell.b.B.backward.0", [ONES], [ONES])
    for cell in "ab":
        name = f"Cell.{cell}.B.parameters_grad"
        record = run.describer.array(NAN, name, "w", "mindspore.Tensor", "Float32")
        run.front.call(name, None, None, f'{{"w":[{record}]}}')
    run.end()
    assert run.written == ["Cell.a.B.backward.0", "Cell.a.B.parameters_grad", "Cell.b.B.parameters_grad"]
    assert [(f["kind"], f["call"], f["place"]) for f in run.findings] == [
        ("entered", "Cell.a.B.backward.0", "input.0"),
        *wanted,
    ]


def test_a_backward_without_results_is_charged_with_what_it_received(overflow):
    """The first cell of a network: its input needs no gradient."""
    run = overflow("L0")
    run.call("Cell.a.B.backward.0", [NAN], [])
    record = run.describer.array(NAN, "Cell.a.B.parameters_grad", "w", "mindspore.Tensor", "Float32")
    run.front.call("Cell.a.B.parameters_grad", None, None, f'{{"w":[{record}]}}')
    run.end()
    assert run.written == ["Cell.a.B.backward.0", "Cell.a.B.parameters_grad"]
    assert [(f["kind"], f["call"], f["place"]) for f in run.findings] == [("entered", "Cell.a.B.backward.0", "input.0")]


def test_the_gradient_of_a_parameter_whose_cell_had_no_backward_entered_from_outside(overflow):
    run = overflow("L0")
    record = run.describer.array(NAN, "Cell.a.B.parameters_grad", "w", "mindspore.Tensor", "Float32")
    run.front.call("Cell.a.B.parameters_grad", None, None, f'{{"w":[{record}]}}')
    run.end()
    assert [(f["kind"], f["place"]) for f in run.findings] == [("entered", "w")]


def test_a_gradient_of_minus_infinity_is_no_mask(overflow):
    run = overflow("L0")
    run.call("Cell.a.B.backward.0", [MINUS], [])
    run.end()
    assert [(f["kind"], f["place"]) for f in run.findings] == [("entered", "input.0")]


# ---- the last calls


def test_a_ring_holds_the_last_tensors_and_no_more_than_its_limit():
    ring = Ring(1024)
    slots = [ring.hold(np.full(50, n, np.float32)) for n in range(9)]  # 256 bytes each
    assert [slot.array is None for slot in slots] == [True] * 5 + [False] * 4
    assert [slot.array[0] for slot in slots[5:]] == [5, 6, 7, 8]
    assert ring.hold(np.zeros(2000, np.uint8)).array is None, "larger than everything"
    assert [slot.array is None for slot in slots[5:]] == [False] * 4, "for it nothing was given up"


@pytest.mark.parametrize("seed", range(5))
def test_what_a_ring_still_has_is_what_was_put_in(seed):
    rng, ring, live = np.random.default_rng(seed), Ring(4096), []
    for _ in range(300):
        array = rng.integers(0, 255, rng.integers(0, 1500), np.uint8)
        live.append((ring.hold(array), array))
        there = [(slot.array, kept) for slot, kept in live if slot.array is not None]
        assert there
        assert sum(max(64, -(-kept.nbytes // 64) * 64) for _, kept in there) <= 4096
        for found, kept in there:
            assert np.array_equal(found, kept)


def test_a_trigger_writes_the_call_and_its_predecessors_and_steps_without_one_leave_nothing(trigger):
    run = trigger(on=("nan",), calls=2)
    run.call("Mint.a.0.forward", [ONES], [INF])
    assert run.end().written is None
    assert not run.step.exists()
    run.begin()
    for name in "abc":
        run.call(f"Mint.{name}.0.forward", [ONES], [ONES])
    run.call("Mint.log.0.forward", [ONES], [NAN])
    assert run.written == ["Mint.b.0.forward", "Mint.c.0.forward", "Mint.log.0.forward"], "at once"
    assert len(list((run.step / "dump_tensor_data").iterdir())) == 6
    run.call("Mint.log.1.forward", [ONES], [NAN])
    run.end()
    assert len(run.written) == 3
    (finding,) = run.findings
    assert (finding["kind"], finding["call"], finding["place"]) == ("nan", "Mint.log.0.forward", "output.0")
    assert finding["written"] == run.written
    assert main(["overflow_check", str(run.step), "-o", str(run.folder)]) == 1


def test_a_jump_is_against_the_same_call_of_the_step_before(trigger):
    run = trigger(on=("jump",), jump=10.0, calls=0, times=-1)
    run.call("Mint.a.0.forward", [ONES], [ONES])
    for factor in (9, 90, 901):
        run.end().begin()
        run.call("Mint.a.0.forward", [ONES], [ONES * np.float32(factor)])
        assert run.written == (["Mint.a.0.forward"] if factor == 901 else None)
    (finding,) = run.findings
    assert (finding["kind"], finding["value"], finding["golden"]) == ("jump", 1802, 180)


def test_a_digest_that_differs_from_the_golden_dump(trigger, tmp_path):
    golden = trigger(on=("nan",), calls=5)
    for name, result in (("a", ONES), ("b", ONES * 2), ("c", NAN)):
        golden.call(f"Mint.{name}.0.forward", [ONES], [result])
    golden.end()
    golden.folder.rename(kept := tmp_path.parent / f"{tmp_path.name}_golden")
    run = trigger(on=("digest",), golden=str(kept), calls=1)
    run.call("Mint.a.0.forward", [ONES], [ONES])
    run.call("Mint.b.0.forward", [ONES], [ONES * 3])
    assert run.end().written == ["Mint.a.0.forward", "Mint.b.0.forward"]
    assert [(f["kind"], f["place"]) for f in run.findings] == [("digest", "output.0")]


def test_a_golden_dump_with_digests_of_another_kind_is_not_compared(trigger, tmp_path, capsys):
    golden = trigger(on=("nan",), calls=5)
    golden.describer.digests = "crc32c"
    golden.call("Mint.a.0.forward", [ONES], [NAN])
    golden.end()
    golden.folder.rename(kept := tmp_path.parent / f"{tmp_path.name}_golden")
    run = trigger(on=("digest",), golden=str(kept), calls=1)
    run.call("Mint.a.0.forward", [ONES], [ONES])
    assert run.end().written is None
    assert capsys.readouterr().err.count("of a different kind") == 1


def test_tensors_that_are_not_in_memory_any_more_are_missing_and_said_to_be(trigger):
    run = trigger(on=("nan",), memory=1 << 20)
    large = np.ones(200_000, np.float32)
    run.call("Mint.a.0.forward", [large], [ONES])
    run.call("Mint.b.0.forward", [large], [NAN])
    dump = json.loads((run.end().step / "dump.json").read_text())
    assert "data_name" not in dump["data"]["Mint.a.0.forward"]["input_args"][0]
    assert "data_name" in dump["data"]["Mint.b.0.forward"]["input_args"][0]
    assert {(each["name"], each["part"]) for each in dump["missing"]} == {
        ("Mint.a.0.forward", "input.0"),
        ("Mint.a.0.forward", "output.0"),  # the ring went on behind the new tensor
    }
    assert "memory" in dump["missing"][0]["cause"]


def raised(run, name, parent, cause, running=()):
    record = run.records(name, "input", [ONES])
    run.front.raised(Raised(name, parent, run.stack, cause, running))
    run.front.call(name, parent, run.stack, f'{{"input_args":{record},"input_kwargs":{{}},"missing":["output"]}}')


def test_an_exception_leaves_the_calls_that_run_and_the_last_before_them(exceptions):
    run = exceptions(calls=1)
    for name in "ab":
        run.call(f"Mint.{name}.0.forward", [ONES], [ONES], "Cell.a.B.forward.0")
    cause = ValueError("of no shape")
    raised(run, "Mint.c.0.forward", "Cell.a.B.forward.0", cause, ["Cell.a.B.forward.0"])
    assert run.written == ["Mint.b.0.forward", "Mint.c.0.forward"]
    raised(run, "Cell.a.B.forward.0", None, cause)
    assert run.written == ["Mint.b.0.forward", "Mint.c.0.forward", "Cell.a.B.forward.0"]
    (finding,) = run.findings
    assert (finding["call"], finding["exception"]) == ("Mint.c.0.forward", reason(cause))
    assert (finding["written"], finding["running"]) == (["Mint.b.0.forward"], ["Cell.a.B.forward.0"])
    assert "ValueError: of no shape" in finding["traceback"]
    raised(run, "Mint.c.1.forward", None, ValueError("again"))
    assert len(run.findings) == 2


def test_a_training_that_raises_again_and_again_does_not_fill_the_disk(exceptions):
    run = exceptions(calls=0)
    for number in range(40):
        raised(run, f"Mint.c.{number}.forward", None, ValueError(str(number)))
    assert len(run.findings) == len(run.end().written) == 16
