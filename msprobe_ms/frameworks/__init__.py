"""Everything that depends on the framework of a training, with one package for each framework.

Read `interface` (the capabilities) and `registry` (detects the framework of a model and loads capabilities), then one
package, such as `pytorch`. `process` uses the capabilities of all frameworks that this process has imported. `limits`,
`seeding` and `torch_names` import no framework.
"""
