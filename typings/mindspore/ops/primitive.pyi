from typing import Any

from . import Primitive as Primitive

class PrimitiveWithInfer(Primitive): ...

def __getattr__(name: str) -> Any: ...
