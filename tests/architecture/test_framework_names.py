"""The names of frameworks outside `msprobe.frameworks`, the public modules and `mapping`: each module with a reason.

Docstrings, comments and messages to users are not code.
"""

import ast
import re

NAME = re.compile(r"(mindspore|torch|pytorch|mindtorch|msadapter)(?![a-z-])", re.IGNORECASE)
VALUE = re.compile(r"(mindspore|torch|pytorch|mindtorch|msadapter)([.:][\w.:]*)?")

EXEMPT = ("msprobe.frameworks", "msprobe.mapping", "msprobe.mindspore", "msprobe.pytorch", "msprobe.core")

LISTED = {
    "collects inside of MindSpore's compiled graphs, or from its kernel dump": (
        *("msprobe.graph_save.calls", "msprobe.graph_save.collector", "msprobe.graph_save.compiled_calls"),
        *("msprobe.graph_save.compiled_save", "msprobe.graph_save.gather.dump"),
        *("msprobe.graph_save.instrumentation", "msprobe.graph_save.kernel.collector"),
        *("msprobe.graph_save.kernel.environment", "msprobe.graph_save.kernel.machine"),
        *("msprobe.graph_save.operators", "msprobe.graph_save.save", "msprobe.graph_save.structures"),
        *("msprobe.graph_save.transport.native", "msprobe.graph_save.transport.reports"),
        "msprobe.graph_save.transport.tensordump",
    ),
    "serves trainings with `mindspore.train.Model`, which no other framework has": (
        *("msprobe.callbacks", "msprobe.model_training", "msprobe.monitor_callback"),
    ),
    "computes references in float64 with PyTorch, whatever the framework of the dump": (
        *("msprobe.replay.plan", "msprobe.replay.replay"),
        *("msprobe.replay.reference.attention", "msprobe.replay.reference.compute"),
        *("msprobe.replay.reference.execute", "msprobe.replay.reference.functions"),
        *("msprobe.replay.reference.indexing", "msprobe.replay.reference.optimizers"),
        *("msprobe.replay.reference.routing", "msprobe.replay.reference.sampling"),
        *("msprobe.replay.reference.results", "msprobe.replay.reference.sensitivity"),
    ),
    "relates the two frameworks to each other: names, defaults, layouts of checkpoints": (
        *("msprobe.compare.advice.defaults", "msprobe.compare.advice.known_causes"),
        *("msprobe.compare.checkpoint.match", "msprobe.compare.checkpoint.megatron"),
        *("msprobe.compare.config_check.compare", "msprobe.compare.config_check.context"),
        "msprobe.compare.config_check.packages",
        *("msprobe.compare.config_check.random_calls", "msprobe.compare.config_check.tensors"),
        *("msprobe.compare.core.relation", "msprobe.compare.counterparts.features"),
        *("msprobe.compare.match.cross_framework", "msprobe.compare.match.records"),
    ),
    "reads or writes files that contain the name, or that one framework writes": (
        *("msprobe.bundle.pack", "msprobe.compare.checkpoint.ckpt", "msprobe.compare.checkpoint.formats"),
        *("msprobe.precheck.op_generate_verb", "msprobe.precheck.script"),
        *("msprobe.store.describe", "msprobe.store.free_benchmark", "msprobe.store.kernel_dump.files"),
        *("msprobe.store.reader", "msprobe.store.saves.graph_saves"),
        "msprobe.store.torch_files",
    ),
    "an option or argument of the user is the name of a framework": (
        *("msprobe.cli", "msprobe.config_check.checker"),
        *("msprobe.monitor.sectioned_settings", "msprobe.single_save"),
    ),
    "examines an installation or a command line before the training, without importing a framework": (
        *("msprobe.config_check.shell", "msprobe.readiness.installation"),
        "msprobe.readiness.target",
    ),
    "recognizes tensors below the layer of `msprobe.frameworks`": ("msprobe.base.framework",),
}
"""The modules by their reason."""


def names_in(source):
    """Yield the names of frameworks in the code of a module."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import():
                yield from (each.name for each in node.names if VALUE.fullmatch(each.name))
            case ast.ImportFrom():
                yield from (each.name for each in node.names if NAME.search(each.name))
                if node.module and VALUE.fullmatch(node.module):
                    yield node.module
            case ast.Constant(value=str(text)):
                if VALUE.fullmatch(text):
                    yield text
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                if NAME.search(name):
                    yield name


def test_only_listed_modules_contain_the_name_of_a_framework(modules):
    listed = [name for names in LISTED.values() for name in names]
    assert len(listed) == len(set(listed))
    found = {
        module.name
        for module in modules
        if not any(module.name == each or module.name.startswith(f"{each}.") for each in EXEMPT)
        and next(names_in(module.file.read_text()), None) is not None
    }
    assert found - set(listed) == set(), "use a capability of msprobe.frameworks, or add the module with a reason"
    assert set(listed) - found == set(), "these no longer contain a name: remove them from the list"


def test_names_are_found_in_code_and_not_in_prose():
    found = "import torch.nn\nfrom mindspore import ops\nkind = 'pytorch'\nis_mindspore = x.torch_dtype\n"
    assert sorted(names_in(found)) == ["is_mindspore", "mindspore", "pytorch", "torch.nn", "torch_dtype"]
    assert (
        list(names_in('"""PyTorch."""\nraise ValueError("install torch, or pass a mindspore.nn.Cell")  # torch')) == []
    )
