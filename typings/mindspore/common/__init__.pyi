from typing import Any

from . import dtype as dtype

def __getattr__(name: str) -> Any: ...
