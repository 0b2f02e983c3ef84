"""Check the calls of faulty kernels, and say which fault is found at the right direction and output.

    python run.py WORK [--healthy]

Records with plant.py, unless WORK has the dumps already, and judges them by `msprobe.precheck`.
"""

import argparse
import subprocess
import sys
from pathlib import Path

from msprobe.precheck.check import Inputs, apis_of, checked
from msprobe.precheck.judge import Status
from msprobe.store.reader import read

HERE = Path(__file__).parent
sys.path.append(str(HERE))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--healthy", action="store_true")
    args = parser.parse_args()
    import faults

    if not args.work.exists():
        command = [sys.executable, str(HERE / "plant.py"), str(args.work), *["--healthy"] * args.healthy]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    found = count = others = 0
    print("| fault | found | by | everything that was called wrong |\n|---|---|---|---|")
    for number, fault in enumerate(faults.FAULTS):
        wrong, outputs, skipped = judged(args.work / f"{number:02d}" / "step0")
        count += outputs
        right = [each for each in wrong if each.name.endswith(fault.where)]
        is_found = bool(right) and len(right) == len(wrong)
        found += is_found
        others += len(wrong) - len(right)
        by = right[0].judgement.criterion.value if right else " ".join(skipped)
        print(f"| {fault.name} | {'yes' if is_found else 'no'} | {by} | {', '.join(each.name for each in wrong)} |")
    print(f"\n{found} of {len(faults.FAULTS)} found; {count} outputs judged, {others} called wrong elsewhere")


def judged(folder):
    """What is wrong in a dump, how many outputs there were, and why calls were skipped."""
    dump = read(folder)
    wrong, count, skipped = [], 0, []
    for api in apis_of(dump):
        result, _ = checked(dump, api, Inputs())
        for direction in result.directions:
            count += len(direction.outputs)
            wrong += [each for each in direction.outputs if each.judgement.status is Status.ERROR]
            if direction.skipped:
                skipped.append(f"{api.name} {direction.direction} {direction.skipped}")
    return wrong, count, skipped


if __name__ == "__main__":
    main()
