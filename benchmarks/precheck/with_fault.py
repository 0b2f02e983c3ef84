"""Run a command of msprobe, or a script, where one kernel is faulty: `with_fault.py NUMBER msprobe ARGS...|SCRIPT`."""

import importlib
import runpy
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
plant = importlib.import_module("plant")

number, command, *rest = sys.argv[1:]
fault = plant.faults.FAULTS[int(number)]
prefix, _, name = fault.stem.partition(".")
setattr(plant.OWNERS[prefix], name, plant.planted(fault, is_healthy=False))
if command == "msprobe":
    from msprobe.cli import main

    sys.exit(main(rest))
sys.argv = [command, *rest]
runpy.run_path(command, run_name="__main__")
