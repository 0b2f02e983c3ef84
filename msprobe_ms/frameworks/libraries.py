"""The packages of Python that are frameworks, or layers with the API of one; imports none of them."""

LIBRARIES = frozenset(("mindspore", "torch", "msadapter", "mindtorch"))
