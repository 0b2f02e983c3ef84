"""A framework of numpy arrays that can be collected: the example of docs/en/explanation/backends.md.

`library` is the framework itself: tensors, functions, and modules with parameters and a forward hook. The other modules
are its capabilities. `registry.register("toy", "toy_framework", "toy_framework.library")` adds it.
"""
