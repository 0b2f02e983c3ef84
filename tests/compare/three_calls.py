"""Three calls that follow each other, for dumps that differ from one of them on; what is said and written of them."""

import re

EXP, SIN, TAN = "Mint.exp.0.forward", "Mint.sin.0.forward", "Mint.tan.0.forward"


def printed(capsys):
    return capsys.readouterr().out.splitlines()


def written(out, pattern):
    """The files below a folder, each without the time in its name."""
    return sorted(re.sub(r"\d{14}", "T", str(path.relative_to(out))) for path in out.rglob(pattern))
