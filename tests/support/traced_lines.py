"""Something that happens at a line of msprobe's code."""

from pathlib import Path

import msprobe

HOME = str(Path(msprobe.__file__).parent)


class AtLine:
    """A trace function that calls `act` when `at` lines of msprobe have run in this thread."""

    def __init__(self, at, act):
        self.left, self._act = at, act

    def __call__(self, frame, event, argument):
        return self.line if frame.f_code.co_filename.startswith(HOME) else None

    def line(self, frame, event, argument):
        if event == "line":
            self.left -= 1
            if self.left == 0:
                self._act()
        return self.line
