"""Modules of the toy framework."""

from msprobe.base.framework import check_model
from msprobe.frameworks.interface import Removal

from .collecting import CAPABILITY as TOY
from .library import Module


class Modules:
    kind = TOY.kind

    def is_model(self, value):
        return isinstance(value, Module)

    def check(self, model):
        check_model(model, Module, self.kind)

    def parameters(self, model):
        return model.named_parameters()

    def name_of(self, parameter):
        return ""

    def inside(self, model):
        return _inside(model, "")

    def is_training(self, module):
        return True

    def hook(self, module, before, after):
        def hook(module, args, result):
            after(args, {}, result)

        module.hooks_after.append(hook)
        return [Removal(self.before_calls(module, before)), Removal(lambda: module.hooks_after.remove(hook))]

    def before_calls(self, model, before):
        def hook(module, args):
            before(args, {})

        model.hooks_before.append(hook)
        return lambda: model.hooks_before.remove(hook)

    def without_compiled(self, patches):
        return Removal(lambda: None)


def _inside(model, prefix):
    for name, module in model._modules.items():
        yield f"{prefix}{name}", module
        yield from _inside(module, f"{prefix}{name}.")


CAPABILITY = Modules()
