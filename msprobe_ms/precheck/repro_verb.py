"""Write a script that reproduces one recorded call, and runs without this tool.

  msprobe repro CALL -api_info dump.json [-o DIR] [--reduce]

CALL is a call such as Mint.matmul.0.backward, or one of its outputs. The script has less than 80 lines and an npz file
beside it: inputs, what the outputs should be in float64, tolerances. It says which output is wrong, with exit code 1.
--reduce makes shapes and values smaller while the call stays wrong on the current device. Exit code: 0 written, 2 not.
"""

import argparse
from pathlib import Path

from msprobe.base.log import visible


def add(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("call", metavar="CALL", help="the call, such as Mint.matmul.0.backward, or one of its outputs")
    parser.add_argument("-api_info", "--api_info_file", metavar="FILE", required=True, help="dump.json, or its folder")
    parser.add_argument("-o", "--out_path", metavar="DIR", default="./", help="folder of the script; default: ./")
    parser.add_argument("--reduce", action="store_true", help="make the call smaller while it stays wrong")
    parser.add_argument("--run", action="store_true", help="execute the call here, to say whether it is wrong")
    parser.add_argument("--seed", type=int, default=42, help="of inputs that were not recorded; default: 42")


def run(args: argparse.Namespace) -> int:
    """Write the script, and print where it is."""
    from msprobe.store.reader import find, read

    from .executor import executor_of
    from .generate import place_of, write

    dump = read(find(Path(args.api_info_file)))
    at = place_of(dump, args.call)
    is_run = args.run or args.reduce
    script, data, finding = write(
        dump,
        at,
        Path(args.out_path),
        name=dump.columns.names[at],
        seeds=(args.seed if dump.task == "statistics" else None,),
        executor=executor_of(dump.framework) if is_run else None,
        is_reduced=args.reduce,
    )
    print(visible(f"script: {script}"))
    print(visible(f"data: {data} ({data.stat().st_size} bytes)"))
    print(visible(finding or "no output was found wrong"))
    return 0
