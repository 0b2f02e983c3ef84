"""A JSON object on disk, read without trust."""

import json
from pathlib import Path
from typing import Any

from msprobe.base.errors import DumpError
from msprobe.base.files import open_input
from msprobe.base.log import logger

from . import layout
from .memory import must_fit


def may_have_halves(text: str, start: int = 0, end: int | None = None) -> bool:
    """Whether half of a surrogate pair may stand alone in a JSON text."""
    return text.find("\\ud", start, end) >= 0 or text.find("\\uD", start, end) >= 0


def with_whole_characters(made: Any) -> Any:
    """Half a surrogate pair is a text that cannot be written anywhere; here each becomes a question mark."""
    return json.loads(json.dumps(made, ensure_ascii=False).encode("utf-8", "replace").decode())


def json_object(file: Path) -> dict[str, Any]:
    """The JSON object in a file; DumpError with the place where it is broken."""
    try:
        text = _bytes(file).decode("utf-8-sig")
        made = json.loads(text)
        if may_have_halves(text):
            made = with_whole_characters(made)
    except OSError as err:
        raise DumpError(f"{file}: cannot be read ({err.strerror or err}); check the path and its permissions") from err
    except json.JSONDecodeError as err:
        if not text.strip():
            raise DumpError(f"{file}: is empty; its process died, look for a {layout.JOURNAL} beside it") from None
        raise DumpError(
            f"{file}: is broken at line {err.lineno}, column {err.colno} ({err.msg}); copy it again, or collect again"
        ) from None
    except RecursionError:
        raise DumpError(f"{file}: is nested without end; no collector writes that") from None
    except MemoryError:
        raise DumpError(f"{file}: is larger than this machine's memory; read it on a larger one") from None
    except ValueError as err:  # no UTF-8, or a number of thousands of digits
        raise DumpError(f"{file}: is no JSON ({err}); give the dump.json of a collected step") from err
    if not isinstance(made, dict):
        raise DumpError(f"{file}: holds no JSON object; give the dump.json of a collected step")
    return made


def _bytes(file: Path) -> bytes:
    with open_input(file) as opened:
        must_fit(opened, file)
        return opened.read()


def json_object_or_empty(file: Path) -> dict[str, Any]:
    """The object in a file that helps and may be absent; a broken one is said and left out."""
    if not file.exists():
        return {}
    try:
        return json_object(file)
    except DumpError as err:
        logger.warning("%s; read without it", err)
        return {}
