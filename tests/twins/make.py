"""Make one dump of one side of a twin: `python make.py gpt mindspore OUT [--variant V] [--bug B] ...`.

`--collector reference` is for comparing with the other tool: the script then runs where that is installed, which has
the same import name and takes the same configuration.
"""

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import program
import truth

SIDE = {"mindspore": "ms", "pytorch": "pt"}


def main(argv=None):
    args = arguments(argv)
    settings = {"level": args.level, "task": args.task, "summary": args.summary}
    collect(args.net, args.framework, args.out, args.variant, args.bug, args.steps, **settings)


def collect(net, framework, out, variant=None, bug=None, steps=1, **settings):
    """Train one side of a twin for some steps and dump them into `out`; `settings` are those of `configuration`.

    Gives the debugger that collected.
    """
    debugger = debugger_of(framework, out, **settings)
    model, filled = built(net, framework, out / "program", variant, bug)
    training(framework).train(model, filled, net, steps, debugger)
    return debugger


def arguments(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("net", choices=sorted(truth.nets()))
    parser.add_argument("framework", choices=sorted(SIDE))
    parser.add_argument("out", type=Path)
    parser.add_argument("--variant", help=f"{', '.join(truth.VARIANTS)}, or several joined by +")
    parser.add_argument("--bug")
    parser.add_argument("--level", default="mix", choices=["mix", "L0", "L1"])
    parser.add_argument("--task", default="statistics", choices=["statistics", "tensor"])
    parser.add_argument("--summary", default="statistics", choices=["statistics", "md5"])
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--collector", default="own", choices=["own", "reference"], help="which msprobe is installed")
    return parser.parse_args(argv)


def built(net, framework, folder, variant=None, bug=None):
    """The program of a side and its net, filled with the weights of the twin."""
    side = SIDE[framework]
    truths, equal = truth.load(net, variant), "equal_weights" in truth.names_of(variant)
    patches, loading = list(truths.patches[side]), None
    if bug and side == "ms":
        planted = bugs()[bug]
        if planted["net"] != net:
            raise SystemExit(f"{bug} is a bug of {planted['net']}, not of {net}")
        patches += planted.get("patches", [])
        loading = planted.get("loading", {}) | {"bug": bug}
    model = program.load(net, side, folder, patches, truths.scrambled == side)
    more = {"loading": loading} if side == "ms" else {}
    return model, training(framework).filled(model, truths.parameters[side], equal, **more)


def bugs():
    """The planted bugs by name."""
    return truth.contents(Path(__file__).parent / "bugs.yaml")


def training(framework):
    """The module that trains on a framework; the other framework is not imported."""
    if framework == "mindspore":
        import train_ms as found
    else:
        import train_pt as found
    return found


def debugger_of(framework, out, **settings):
    """A debugger that collects into the output folder."""
    if framework == "mindspore":
        from msprobe.mindspore import PrecisionDebugger
    else:
        from msprobe.pytorch import PrecisionDebugger
    out = out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    config = out / "config.json"
    config.write_text(json.dumps(configuration(out, **settings)))
    return PrecisionDebugger(config_path=str(config))


def configuration(out, level="mix", task="statistics", summary="statistics"):
    """The config.json of a dump, with the keys that the other tool wants as well."""
    of_task = {"scope": [], "list": [], "data_mode": ["all"]}
    if task == "statistics":
        of_task["summary_mode"] = summary
    common = {"task": task, "dump_path": str(out), "rank": [], "step": [], "level": level}
    return common | {task: of_task}


if __name__ == "__main__":
    main()
