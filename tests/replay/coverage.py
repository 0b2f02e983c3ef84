"""What of some dumps is replayed: per operation the count and the greatest eta, then why calls were not.

    python coverage.py DUMP [DUMP ...]

A DUMP is the folder of a step of one rank, of task `tensor`. Of several candidates the one with the least eta counts.
"""

import argparse
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from msprobe.base import names
from msprobe.replay.recorded import Replayed
from msprobe.replay.replay import replay
from msprobe.store.reader import read


@dataclass
class Coverage:
    """`worst`: (operation, direction) to the greatest eta and its call. `causes`: calls that were not replayed."""

    worst: dict = field(default_factory=dict)
    counts: Counter = field(default_factory=Counter)
    causes: dict = field(default_factory=lambda: defaultdict(list))
    seconds: float = 0.0

    def add(self, dump):
        """Replay every call of a dump."""
        for place, name in enumerate(dump.columns.names):
            parsed = names.parse(name)
            if parsed.kind not in ("api", "cell") or not parsed.direction:
                continue
            begin = time.perf_counter()
            result = replay(dump, place)
            self.seconds += time.perf_counter() - begin
            if not isinstance(result, Replayed):
                self.causes[result.cause].append((name, result.detail))
                continue
            eta = min(max((each.eta for each in found), default=0.0) for found in result.residuals.values())
            key = result.operation, parsed.direction
            self.counts[key] += 1
            self.worst[key] = max(self.worst.get(key, (0.0, "")), (eta, name))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dumps", nargs="+")
    coverage = Coverage()
    for path in parser.parse_args().dumps:
        coverage.add(read(path))
    for (operation, direction), (eta, name) in sorted(coverage.worst.items(), key=lambda item: -item[1][0]):
        print(f"{eta:9.2e}  {coverage.counts[operation, direction]:6d}  {operation} {direction}  {name}")
    for cause, calls in sorted(coverage.causes.items(), key=lambda item: -len(item[1])):
        (name, detail) = calls[0]
        print(f"{len(calls):6d}  {cause.value}: {name} {detail}")
    count = sum(coverage.counts.values())
    total = count + sum(map(len, coverage.causes.values()))
    print(f"{count} of {total} calls replayed, {1e3 * coverage.seconds / max(total, 1):.1f} ms a call")


if __name__ == "__main__":
    main()
