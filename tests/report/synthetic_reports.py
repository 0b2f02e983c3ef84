"""Reports that no command wrote: one of each kind, a very large one, and one whose names try to be code."""

import random
from dataclasses import replace

from synthetic_networks import GOLDEN, STACK, TARGET, Chunks, Network, add_unit, state_of, statistics

from msprobe.base.phrase import phrase
from msprobe.findings.catalogue import comparison as kinds
from msprobe.findings.catalogue.graft import PROVEN_CAUSE
from msprobe.findings.finding import Answer, Finding, Place, Source, Suggestion
from msprobe.findings.kinds import BY_NAME
from msprobe.report.document import (
    CallDetails,
    Curve,
    CurveSet,
    Details,
    Head,
    Layout,
    Meeting,
    Record,
    Side,
    State,
    Table,
    TableSet,
    Tensor,
    Unit,
)

SOURCE = Source(
    "/home/user/training/network.py",
    34,
    30,
    (
        "    def construct(self, x):",
        '        """Scale to a mean square of one."""',
        "        variance = (x * x).mean(-1, keep_dims=True)",
        "        # the epsilon that the configuration has",
        "        return self.weight * x * ops.rsqrt(variance + self.epsilon)",
        "",
        "",
        "class Attention(nn.Cell):",
        "    def __init__(self, width, heads):",
    ),
)


CONFIGURATION = """{
  "task": "tensor",
  "step": [0],
  "level": "mix",
  "tensor": {"list": ["Cell.blocks.1.norm2.RMSNorm."]}
}
"""


def answer_of(network, fault, unit):
    name = network.names[fault]
    first = Finding(
        kinds.ARGUMENT,
        Place(name, "blocks.1.norm2", step=0, rank=3 if unit else 0, source=SOURCE, unit=unit, call=fault),
        "input.1 is 0.001, golden 1e-05",
        evidence=(
            "input.0 agrees in all elements: relative error 1.1e-07, explained by rounding",
            "every call before it agrees: 71 calls, 214 values",
        ),
        later_calls=187,
        reaches_loss=True,
    )
    following = Finding(
        kinds.COMPUTES,
        Place(network.names[fault + 40], "blocks.1.mlp", unit=unit, call=fault + 40),
        "its inputs agree, output.0 does not",
    )
    advice = (
        Suggestion("Compare the argument on both sides in your code; it comes from the configuration."),
        Suggestion(
            "Check the configurations of both runs.",
            "msprobe config-check -c runs/2026-11-26/config.zip runs/trusted/config.zip",
        ),
        Suggestion(
            "Collect this cell with its tensors in the next run.",
            config=CONFIGURATION,
        ),
    )
    line = (
        f"first wrong call: {name} in blocks.1.norm2: argument differs: input.1 is 0.001, golden 1e-05 (network.py:34)"
    )
    harmless = tuple(
        Finding(
            kinds.COMPUTES, Place(network.names[call], unit=unit, call=call), "rounding of another kernel explains it"
        )
        for call in (3, 9)
    )
    return Answer(
        "differs", line, first, (following,), harmless, advice, ("Statistics cannot see elements that changed places.",)
    )


FAULT = "Tensor.__add__.3.forward"


def compared(path, ranks=(0, 1, 2, 3, 4, 5, 6, 7), steps=(0, 1), blocks=2, micro=1, odd=5):
    """Two runs compared: the epsilon of one norm is wrong; one rank differs more than the others."""
    chunks, network = Chunks(), Network(blocks, micro)
    layout = network.layout()
    number = chunks.add(layout)
    fault = network.call(FAULT)
    units = [
        add_unit(chunks, number, layout, fault, step, rank, seed=step * 100 + rank, is_odd=rank == odd)
        for step in steps
        for rank in ranks
    ]
    exchanged = [call for call, kind in enumerate(layout.kinds) if kind == "c"]
    meetings = tuple(
        Meeting("all_reduce in tp-0-1-2-3", tuple((unit, call) for unit in range(len(ranks))), "send and receive")
        for call in exchanged
    )
    rows = tuple(
        (name, f"{name}.output.0", "Float32", i * 0.37, None if i % 9 == 0 else 1.0 / (i + 1), "NaN" if i == 4 else -i)
        for i, name in enumerate(layout.names)
    )
    table = Table(
        ("Call", "NPU Name", "NPU Dtype", "Max diff", "NormRelativeErr", "Mean diff"),
        rows,
        state_of(layout, fault).verdicts,
    )
    counts = {}
    for unit in units:
        for name, one in unit.counts.items():
            counts[name] = counts.get(name, 0) + one
    head = Head(
        "compare",
        "step0 against trusted",
        "msprobe compare -tp runs/2026-11-26/dump/step0 -gp runs/trusted/dump/step0 -o report --html",
        "2026-11-27 02:10",
        "msprobe-ms 0.1.0",
        TARGET,
        GOLDEN,
        answer_of(network, fault, 0),
        counts,
        ((181, "received through an input"), (1, "argument differs")),
        tuple(units),
        meetings,
        tables=(TableSet("compare_result_rank0", chunks.add(table), len(rows)),),
        merged="the layouts of both runs are equal: tp 4, pp 2",
        calls=len(layout.names) * len(units),
        detailed=len(layout.names) * len(units),
    )
    return chunks.write(head, path)


def large(path, ranks=64, calls=20_000):
    """As many ranks and calls as a large training has. Rank 5 has numbers of its own, the others are copies of one;
    the records are there of rank 0 and of rank 5, which has the answer."""
    network = Network(calls // 60)
    layout = network.layout()
    layout = Layout(layout.names[:calls], layout.parents[:calls], layout.kinds[:calls], layout.directions[:calls])
    chunks = Chunks()
    number = chunks.add(layout)
    fault = network.call("Tensor.__add__.77.forward")
    common, odd = (
        add_unit(chunks, number, layout, fault, 0, 0, is_odd, int(is_odd), is_odd) for is_odd in (False, True)
    )
    units = []
    for rank in range(ranks):
        like = odd if rank == 5 else common
        details = ()
        if rank in (0, 5):
            details = tuple((first, chunks.copy(chunk)) for first, chunk in odd.details)
        units.append(
            replace(like, label=f"step0 rank{rank}", rank=rank, state=chunks.copy(like.state), details=details)
        )
    counts = {"pass": 700_000, "error": 480_000, "warning": 100_000}
    head = Head(
        "compare",
        "64 ranks",
        "msprobe compare",
        "2026-11-27",
        "msprobe-ms",
        TARGET,
        GOLDEN,
        answer_of(network, fault, 5),
        counts,
        (),
        tuple(units),
        calls=ranks * calls,
        detailed=2 * calls,
    )
    return chunks.write(head, path)


HOSTILE = (
    "</script><script>window.broken=1</script>",
    "<img src=x onerror=window.broken=1>",
    "\"'`${window.broken=1}",
    "safe\u202efdp.exe\u2066",
    "a\x00b\x1b[31m",
    "<!-- msprobe report data -->",
    "__proto__",
    "javascript:window.broken=1",
)


def hostile(path, depth=10_000):
    """Names that try to be code, and calls nested `depth` deep; a circle of parents, links to nowhere."""
    names = [*HOSTILE, *(f"Cell.{'n.' * min(i, 30)}d{i}.Deep.forward.0" for i in range(depth)), "circle.a", "circle.b"]
    first = len(HOSTILE)
    parents = [-1] * first + [-1 if i == 0 else first + i - 1 for i in range(depth)] + [len(names) - 1, len(names) - 2]
    layout = Layout(tuple(names), tuple(parents), "m" * len(names), "f" * len(names), HOSTILE)
    bad = first + depth - 1
    verdicts = "e" * first + "p" * (depth - 1) + "e" + ".."
    chunks = Chunks()
    excess = ("NaN", "Infinity", "-Infinity", None, *([0.5] * (len(names) - 4)))
    state = State(
        verdicts,
        excess,
        excess,
        overflow="c" * len(names),
        links=((0, HOSTILE[0], 1, HOSTILE[1]), (0, "x", 99_999_999, "y")),
    )
    text = HOSTILE[0] + HOSTILE[3]
    records = tuple(
        Record(
            name,
            name,
            Tensor(name, (1,), {"max": "NaN", "min": "Infinity", "mean": "-Infinity"}, name),
            Tensor(value=name * 3),
            "e",
            {name: name},
            name,
            (name,),
        )
        for name in HOSTILE
    )
    details = Details(tuple(CallDetails(call, records, HOSTILE, HOSTILE) for call in (*range(first), bad)))
    unit = Unit(
        HOSTILE[0],
        chunks.add(layout),
        chunks.add(state),
        ((0, chunks.add(details)),),
        0,
        0,
        HOSTILE[1],
        {"error": 9},
        bad,
    )
    kind = replace(kinds.COMPUTES, name=text)
    place = Place(names[bad], text, text, 0, 0, source=Source(text, 1, 1, HOSTILE), unit=0, call=bad)
    found = Finding(kind, place, text, evidence=HOSTILE, later_calls=1, reaches_loss=True)
    answer = Answer("differs", text, found, (found,), (found,), (Suggestion(text, text, text),), HOSTILE)
    rows = tuple((name, "NaN", None) for name in HOSTILE)
    table = TableSet(text, chunks.add(Table(HOSTILE[:3], rows, "e" * len(rows))), len(rows))
    side = Side(text, text, text, text, {text: text})
    head = Head(
        "compare",
        text,
        text,
        text,
        text,
        side,
        side,
        answer,
        {"error": 9, HOSTILE[0]: 1},
        ((1, text),),
        (unit,),
        (Meeting(text, ((0, 0), (0, 1)), text),),
        (),
        (table,),
        text,
        9,
        9,
    )
    return chunks.write(head, path)


def dumped(path):
    """One dump alone: nothing was judged."""
    chunks, network = Chunks(), Network()
    layout = network.layout()
    number = chunks.add(layout)
    calls = []
    for call in range(len(layout.names)):
        one = Tensor("BFloat16" if call % 3 else "Float32", (8, 64, 256), statistics(3.1, -2.9, 0.01, 41.7))
        calls.append(CallDetails(call, (Record("input.0", "input", one), Record("output.0", "output", one)), STACK))
    links = state_of(layout, None).links
    state = State("." * len(layout.names), links=links)
    unit = Unit("step0", number, chunks.add(state), ((0, chunks.add(Details(tuple(calls)))),), 0, None)
    answer = Answer("shown", f"step0: {len(calls)} calls, {2 * len(calls)} values, all finite")
    head = Head(
        "dump",
        "runs/dump/step0",
        "msprobe report runs/dump/step0 -o out.html",
        "2026-11-27",
        "msprobe-ms",
        TARGET,
        None,
        answer,
        {},
        (),
        (unit,),
        calls=len(calls),
        detailed=len(calls),
    )
    return chunks.write(head, path)


def overflowing(path):
    """NaN begin at one call of one rank and go on from there."""
    chunks, network = Chunks(), Network()
    layout = network.layout()
    number = chunks.add(layout)
    made = network.call("Mint.rsqrt.2.forward")
    units = []
    for rank in (0, 1):
        begins = made if rank == 1 else made + 20
        letters = ["."] * len(layout.names)
        for call in range(begins, len(letters)):
            letters[call] = "c" if call == made and rank == 1 else "h"
        state = State("." * len(letters), overflow="".join(letters), links=state_of(layout, None).links)
        bad = Tensor("Float16", (8, 64), statistics("NaN", "NaN", "NaN", "NaN"))
        good = Tensor("Float16", (8, 64), statistics(65504.0, -1.0, 30.1, 80000.0))
        details = Details(
            tuple(
                CallDetails(
                    call,
                    (
                        Record("input.0", "input", bad if call > begins else good),
                        Record("output.0", "output", bad if call >= begins else good),
                    ),
                    STACK,
                )
                for call in range(len(letters))
            )
        )
        units.append(
            Unit(f"step3 rank{rank}", number, chunks.add(state), ((0, chunks.add(details)),), 3, rank, first=begins)
        )
    first = Finding(
        BY_NAME["made"],
        Place(network.names[made], "blocks.1.norm1", step=3, rank=1, source=SOURCE, unit=1, call=made),
        "all inputs are finite (at most 65504), output.0 has 12 NaN of 512",
        evidence=("step 2 has no non-finite value",),
    )
    line = f"first non-finite: {network.names[made]} on rank 1"
    answer = Answer(
        "differs", line, first, advice=(Suggestion("Look at the range of input.0: float16 ends at 65504."),)
    )
    head = Head(
        "overflow_check",
        "runs/dump",
        "msprobe overflow-check -i runs/dump",
        "2026-11-27",
        "msprobe-ms",
        TARGET,
        None,
        answer,
        {},
        (),
        tuple(units),
        calls=2 * len(layout.names),
        detailed=2 * len(layout.names),
    )
    return chunks.write(head, path)


WEIGHTS = ("norm1.weight", "attention.qkv.weight", "attention.out.weight", "norm2.weight", "mlp.up.weight")


def monitored(path):
    """Two monitored trainings: one curve leaves its band at step 40."""
    chunks, sets = Chunks(), []
    draw = random.Random(1)
    for i in range(60):
        target = f"blocks.{i // 5}.{WEIGHTS[i % 5]}"
        curves = []
        for statistic in ("norm", "max", "min", "mean"):
            for rank in (0, 1):
                steps = tuple(range(100))
                golden = tuple(2.0 + 1.5 / (1 + s / 10) + draw.gauss(0, 0.01) for s in steps)
                left = 40 if i == 17 and rank == 1 else None
                seen = tuple(
                    g + draw.gauss(0, 0.01) + (0.02 * (s - 40) if left and s >= 40 else 0)
                    for s, g in zip(steps, golden, strict=True)
                )
                low, high = tuple(g - 0.06 for g in golden), tuple(g + 0.06 for g in golden)
                curves.append(Curve(statistic, rank, steps, seen, golden, low, high, left))
        sets.append(
            CurveSet(target, "gradient", chunks.add(curves), i == 17, 6.2 if i == 17 else round(0.3 + i / 100, 2))
        )
    first = Finding(
        BY_NAME["reduced gradient"],
        Place(sets[17].target, step=40, rank=1),
        "its gradient's norm is 2.61, golden 2.30, band 0.06",
        evidence=("activations and loss agree at step 40", "the gradients of blocks.4 and later agree"),
    )
    answer = Answer(
        "differs",
        f"first divergence: {first.place.name} at step 40 on rank 1",
        first,
        advice=(Suggestion("Dump step 40 of rank 1.", config='{"task": "statistics", "step": [40], "rank": [1]}'),),
    )
    head = Head(
        "monitor",
        "monitor A against B",
        "msprobe monitor compare A B",
        "2026-11-27",
        "msprobe-ms",
        TARGET,
        GOLDEN,
        answer,
        curves=tuple(sets),
    )
    return chunks.write(head, path)


def configured(path):
    """Two configurations: one setting of an optimizer differs."""
    chunks = Chunks()
    rows = (
        ("hyperparameter", "learning_rate", 0.001, 0.0001, "differs"),
        ("environment", "HCCL_DETERMINISTIC", "true", None, "only in the target"),
        ("package", "mindspore", "2.10.0", "2.9.0", "differs"),
        *(("package", f"package-{i}", "1.0", "1.0", "equal") for i in range(30)),
    )
    table = Table(("Part", "Name", "Target", "Golden", "Result"), rows, "eww" + "p" * 30)
    first = Finding(BY_NAME["hyperparameters differs"], Place("learning_rate"), "0.001, golden 0.0001")
    answer = Answer("differs", "3 of 33 entries differ", first)
    head = Head(
        "config_check",
        "config A against B",
        "msprobe config-check -c A B",
        "2026-11-27",
        "msprobe-ms",
        TARGET,
        GOLDEN,
        answer,
        {"error": 1, "warning": 2, "pass": 30},
        tables=(TableSet("Configuration", chunks.add(table), len(rows)),),
    )
    return chunks.write(head, path)


def proven(path):
    """A proof by graft: of two causes each closes a share of the gap."""
    chunks = Chunks()
    rows = (
        (phrase("none"), 6.8e-05, 0.0012, 0.0026, None, None),
        (
            phrase("{name}: {what}", name=FAULT, what="forward, backward"),
            *(1e-05, 0.0003, 0.0005, "81%", phrase("proven")),
        ),
        (phrase("{name}: {what}", name="Mint.exp.0.forward", what="inputs"), 0, 0, 0, "100%", phrase("proven")),
    )
    columns = ("graft", "loss gap", "gradient gap", "update gap", "closure", "verdict")
    table = Table(tuple(map(phrase, columns)), rows)
    fields = {"what": "forward, backward", "closed": 1.0}
    reasons = [PROVEN_CAUSE.sentence(**fields | {"share": share}) for share in (0.81, 0.19)]
    first = Finding(PROVEN_CAUSE, Place(FAULT, "blocks.1.norm2", step=0, source=SOURCE), reasons[0])
    after = Finding(PROVEN_CAUSE, Place("Mint.exp.0.forward", step=0), reasons[1])
    head = Head(
        "graft",
        "target against golden",
        "msprobe graft target golden -- python train.py",
        "2026-11-27",
        "msprobe-ms",
        TARGET,
        GOLDEN,
        Answer("differs", "proven: " + FAULT, first, (after,)),
        tables=(TableSet(phrase("runs of the training"), chunks.add(table), len(rows)),),
    )
    return chunks.write(head, path)


def flowed(path):
    """Two RL flows: a stage agrees, the next does not."""
    chunks = Chunks()
    rows = (
        ("rollout", "tokens", "pass"),
        ("reward", "scores", "pass"),
        ("old_log_prob", "log_probs", "error"),
        ("update", "loss", "error"),
    )
    table = Table(("Stage", "Data", "Verdict"), rows, "ppee")
    first = Finding(kinds.COMPUTES, Place("old_log_prob", step=0), "log_probs differ by 0.03 at most, tokens agree")
    answer = Answer("differs", "first difference: stage old_log_prob, log_probs", first)
    head = Head(
        "flow",
        "flow A against B",
        "msprobe compare -tp A -gp B",
        "2026-11-27",
        "msprobe-ms",
        TARGET,
        GOLDEN,
        answer,
        {"pass": 2, "error": 2},
        tables=(TableSet("Stages", chunks.add(table), 4),),
    )
    return chunks.write(head, path)


def clean(path, counts=None):
    """Two runs that agree; `counts` are others than the unit's."""
    chunks, network = Chunks(), Network()
    layout = network.layout()
    number = chunks.add(layout)
    unit = add_unit(chunks, number, layout, None, 0, None, seed=4)
    answer = Answer("clean", "no difference beyond noise: 673 values compared, 41 differ as rounding explains")
    head = Head(
        "compare",
        "step0 against trusted",
        "msprobe compare",
        "2026-11-27",
        "msprobe-ms",
        TARGET,
        GOLDEN,
        answer,
        counts or unit.counts,
        (),
        (unit,),
        calls=len(layout.names),
        detailed=len(layout.names),
    )
    return chunks.write(head, path)


def hardly_judged(path):
    """Two runs that agree in what could be judged, which is little."""
    return clean(path, {"pass": 12, "warning": 0, "error": 0, "unjudged": 88})
