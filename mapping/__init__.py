"""The correspondence of names between MindSpore and PyTorch, and the mapping files of the user.

Read `api` (functions), `correspondence` (arguments and results of one function), `layers` (layers and their
parameters), `transform` (layouts of tensors), then `user_files` and `layer_tree` (mapping files). The facts are in
`tables/`.
"""
