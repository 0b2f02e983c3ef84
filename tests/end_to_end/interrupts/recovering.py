"""A training that is interrupted again and again, and what must hold after each interrupt.

`python recovering.py torch SEED COUNT FOLDER` interrupts trainings of every task COUNT times and prints, as JSON, how
often, and every promise that did not hold, with the seed, the task and the moment by which it can be repeated:
`python recovering.py torch SEED COUNT FOLDER TASK NUMBER` repeats one interrupt.

After each interrupt the program goes on as one that catches it does: it ends the step by `stop` and `step`, or by
neither, and takes the next batch.
"""

import gc
import importlib
import json
import os
import random
import shutil
import sys
import time
import traceback
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
from moments import OURS, AfterTime, Alarm, AtPlace

ENDINGS = ("stop and step", "step", "nothing")
"""What the program calls of the debugger when it has caught the interrupt, before it takes the next batch."""


class Broken(Exception):
    """A promise that does not hold."""


def check(holds, what):
    if not holds:
        raise Broken(what)


class Recovering:
    """Interrupts one training, and checks what comes after."""

    def __init__(self, training, seed):
        self.training, self._seed = training, seed
        # Seed 0, which `make test` runs, comes at counted places only, so that it does the same on every machine.
        self._kinds = ("ours", "ours", "all") if str(seed) == "0" else ("ours", "ours", "all", "time")
        self._steps = self._places = self._ours = 0
        self._seconds = 0.0
        self.interrupts = 0

    def begin(self):
        """Measure what an undisturbed step is like."""
        training = self.training
        training.plain_step()  # the first update of an optimizer may differ from all later ones
        training.reset()
        self._initial = training.bits()
        training.plain_step()
        self._updated = training.bits()
        self._untouched = training.untouched()
        self._reached = reaching(training.plain_step)  # by trainings of before, which stay watched
        training.open()
        for turn in range(3):  # the second is as all later ones
            self._clean()
            found = training.collected()
            check(found is not None, "an undisturbed step is collected")
            if turn == 2 and found != self._known:
                raise Broken(f"two undisturbed steps are equal:\n{difference(self._known, found)}")
            self._known = training.known = found
        for ours in (False, True):
            training.reset()
            with AtPlace(0, ours, Alarm, training.leaves_sigint) as counted:
                training.step()
            if ours:
                self._ours = counted.count
            else:
                self._places = counted.count
        before = time.perf_counter()
        self._clean()
        self._seconds = time.perf_counter() - before
        training.close_step()

    def _clean(self):
        self.training.reset()
        self.training.step()
        check(self.training.bits() == self._updated, "the bits of an undisturbed step")

    def interrupt(self, number):
        """One interrupt, the `number`th; returns whether it came in time."""
        dice = random.Random(f"{self._seed} {self.training.name} {number}")
        error, kind = dice.choice((KeyboardInterrupt, Alarm)), dice.choice(self._kinds)
        ending = dice.choice(ENDINGS)
        training = self.training
        how = error, training.leaves_sigint
        if kind == "time":
            moment = AfterTime(dice.uniform(0, 1.1) * self._seconds, *how)
        else:
            ours = kind == "ours"
            moment = AtPlace(dice.randint(1, max(1, self._ours if ours else self._places)), ours, *how)
        training.reset()
        unraised = []
        hook, sys.unraisablehook = sys.unraisablehook, lambda what: unraised.append(what.exc_type)
        self.where = f"{error.__name__} by {kind}, then {ending}"
        caught = None
        try:
            try:
                with moment:
                    training.step()
            except BaseException as cause:
                caught = cause
                self.where += f", at {moment.where}, in {training.at}"
                if not moment.fired:
                    raise
                training.end(ending)
                self._is_of(cause, error)
        finally:
            sys.unraisablehook = hook
        if not moment.fired:
            training.close_step()
            return False
        self.where = f"{error.__name__} by {kind}, then {ending}, at {moment.where}, in {training.at}"
        self.interrupts += 1
        in_step, error_name = training.at, error.__name__
        if caught is None:
            # A callback of the garbage collector, a finalizer: Python itself prints what is raised there.
            # MindSpore itself keeps some exceptions to itself.
            is_foreign = training.replaces_errors and moment.where.startswith(("/", "<"))
            check(bool(unraised) or is_foreign, f"the {error_name} is passed on to the program")
        tb, caught = caught and "".join(traceback.format_exception(caught)), None
        self.traceback = tb
        training.restore_modes()
        for bits, before, after in zip(training.bits(), self._initial, self._updated, strict=True):
            check(bits in (before, after), "each parameter is as before the step, or as after it")
        if ending == "nothing" and in_step != "over":
            training.reset()
            training.step()  # still of the interrupted step, where that was not ended
            check(training.bits() == self._updated, "the bits of the next step")
        training.ended_by(in_step, ending)
        training.next_number()
        self._clean()
        found = training.collected()
        check(found is not None, "the next step is collected")
        if found != self._known:
            raise Broken(f"the next step is whole:\n{difference(self._known, found)}")
        training.close_step()
        if (untouched := training.untouched()) != self._untouched:
            raise Broken(f"what was replaced is back: {differing(self._untouched, untouched)}")
        training.reset()
        gc.collect()  # what the interrupt's traceback held
        reached = reaching(training.plain_step) - self._reached - training.leftovers
        check(not reached or training.is_watched_for_good, f"a step without the debugger reaches {sorted(reached)}")
        check(training.bits() == self._updated, "the bits of a step without the debugger")
        return True

    def _is_of(self, cause, error):
        seen = cause
        while seen is not None:
            if isinstance(seen, error):
                return
            seen = seen.__cause__ or seen.__context__
        check(error.__name__ in repr(cause) or self.training.replaces_errors, f"{cause!r} is raised instead")


def parted(known, found):
    """Both as texts, from a little before they differ."""
    known, found = str(known), str(found)
    at = max(0, next((i for i, (a, b) in enumerate(zip(known, found, strict=False)) if a != b), 0) - 40)
    return f"{known[at:][:200]} -> {found[at:][:200]}"


def difference(known, found):
    lines = []
    for key in {**known, **found}:
        a, b = known.get(key), found.get(key)
        if a == b:
            continue
        if isinstance(a, dict) and isinstance(b, dict):
            lines += [f"  {key}: missing {list(a.keys() - b.keys())[:5]}, more {list(b.keys() - a.keys())[:5]}"]
            lines += [f"    {k}: {parted(a[k], b[k])}" for k in a if k in b and a[k] != b[k]][:3]
        else:
            lines.append(f"  {key}: {parted(a, b)}")
    return "\n".join(lines[:12])


def differing(known, found):
    if isinstance(known, dict):
        return [(key, known.get(key), found.get(key)) for key in known | found if known.get(key) != found.get(key)]
    if isinstance(known, tuple):
        return [differing(one, other) for one, other in zip(known, found, strict=True) if one != other]
    return known, found


def reaching(work):
    """The code of ours that runs during a piece of work."""
    reached = set()

    def see(frame, event, arg):
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            reached.add(f"{frame.f_code.co_filename.removeprefix(OURS)} {frame.f_code.co_qualname}")

    sys.setprofile(see)
    try:
        work()
    finally:
        sys.setprofile(None)
    return reached


def main():
    framework, seed, count, folder, *one = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    trainings = importlib.import_module(f"{framework}_trainings").trainings(Path(folder))
    chosen = trainings if not one else [each for each in trainings if each.name in one[0].split(",")]
    share, rest = divmod(int(count), len(chosen))
    result = {"interrupts": 0, "seconds": {}, "failures": [], "by task": {}}
    for place, training in enumerate(chosen):
        began = time.perf_counter()
        recovering, number, failures = Recovering(training, seed), 0, 0
        try:
            recovering.where = "begin"
            recovering.begin()
        except Exception:
            result["failures"].append({"task": training.name, "where": "begin", "what": traceback.format_exc()})
            continue
        if len(one) > 1:
            number, share, rest = int(one[1]), 1, 0
        wanted = share + (place < rest)
        while recovering.interrupts < wanted and failures < 5:
            try:
                recovering.traceback = None
                recovering.interrupt(number)
            except (Exception, KeyboardInterrupt) as cause:
                failures += 1
                text = str(cause) if isinstance(cause, Broken) else traceback.format_exc()
                failure = {"task": training.name, "seed": seed, "number": number, "where": recovering.where}
                result["failures"].append({**failure, "what": text, "interrupt": recovering.traceback})
                try:
                    training.begin_anew()
                except Exception:  # nothing of this process can be trusted any more
                    result["failures"].append({**failure, "what": traceback.format_exc()})
                    print(json.dumps(result))
                    return
            number += 1
            if len(one) > 1:
                break
        training.close()
        result["interrupts"] += recovering.interrupts
        result["by task"][training.name] = recovering.interrupts
        result["seconds"][training.name] = round(time.perf_counter() - began, 1)
        shutil.rmtree(training.folder, ignore_errors=True)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
