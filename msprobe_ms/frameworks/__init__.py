"""Everything that depends on the framework of a training, with one package for each framework.

`limits`, `seeding` and `torch_names` import no framework.
"""
