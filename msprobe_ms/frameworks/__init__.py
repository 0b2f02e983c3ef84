"""Everything that depends on the framework of a training, with one package for each framework.

Read `interface` (the capabilities) and `registry` (detects the framework of a model and loads capabilities), then one
package, such as `pytorch`. `limits`, `seeding` and `torch_names` import no framework.
"""
