"""What stands below MindSpore's calls while a case is collected: swapped kernels, and calls that give wrong values."""

from contextlib import ExitStack, contextmanager
from functools import partial, wraps

import kernels
import mindspore
import numpy as np
from effects import changed
from mindspore import Parameter, Tensor, ops


@contextmanager
def planted(inside, fault):
    """While this is open, calls compute as `inside` says, and the call that a kernel fault names gives a wrong value.

    Open it before the debugger starts: what it replaces then is what stands here. Gives the list of the calls in
    whose results the fault was planted, by number.
    """
    hit = []
    with ExitStack() as stack:
        if inside is not None:
            for owner, name, make in _swapped(inside):
                stack.enter_context(_replaced(owner, name, make))
        if fault:
            owner, name = place(fault["call"])
            stack.enter_context(_replaced(owner, name, lambda original: _wrong(original, fault, hit)))
        yield hit


def place(stem):
    """The owner and the attribute of a recorded function: `Functional.add`, `Tensor.__add__`, `Primitive.mm.MatMul`."""
    prefix, _, name = stem.partition(".")
    if prefix == "Primitive":
        return getattr(ops, name.rpartition(".")[2]), "__call__"
    return {"Functional": ops, "Tensor": Tensor}[prefix], name


@contextmanager
def _replaced(owner, name, make):
    inherited = name not in vars(owner)
    original = getattr(owner, name)
    replacement = make(original)
    setattr(owner, name, replacement)
    try:
        yield
    finally:
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)


class _Changed(mindspore._Function):
    """The same tensor but for a change of its value or of its gradient."""

    @staticmethod
    def forward(ctx, x, of_value, of_gradient):
        ctx.of_gradient = of_gradient
        return Tensor(changed(x.asnumpy(), of_value))

    @staticmethod
    def backward(ctx, grad):
        return Tensor(changed(grad.asnumpy(), ctx.of_gradient)), None, None


def _wrong(original, fault, hit):
    """`original`, whose nth call gives a wrong first output, or a wrong gradient of one of its arguments."""
    of_primitive = fault["call"].startswith("Primitive.")
    seen = [0]

    @wraps(original)
    def call(*args, **kwargs):
        seen[0] += 1
        if seen[0] - 1 != fault.get("nth", 0):
            return original(*args, **kwargs)
        hit.append(seen[0] - 1)
        if fault.get("direction") == "backward":
            args, at = list(args), fault.get("argument", 0) + of_primitive
            args[at] = _Changed.apply(args[at], {}, fault["effect"])
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        if isinstance(result, (tuple, list)):
            return type(result)([_Changed.apply(result[0], fault["effect"], {}), *result[1:]])
        return _Changed.apply(result, fault["effect"], {})

    return call


def _swapped(inside):
    """The replacements (owner, name, make) that have calls compute by the kernels of NumPy."""
    yield ops, "matmul", lambda original: _like(original, lambda a, b: _product(a, b, inside))
    yield ops, "bmm", lambda original: _like(original, lambda a, b: _product(a, b, inside))
    yield Tensor, "__matmul__", lambda original: _like(original, lambda a, b: _product(a, b, inside))
    for kind, instead in _primitives(inside).items():
        yield getattr(ops, kind), "__call__", partial(_primitive, instead)
    if not inside.order:
        return
    yield ops, "mean", lambda original: _like(original, _mean(inside))
    yield ops, "sum", lambda original: _like(original, _sum(inside))
    yield ops, "softmax", lambda original: _like(original, lambda x, axis=-1: kernels.Softmax.apply(x, axis, inside))


def _product(a, b, inside):
    return kernels.MatMul.apply(a, b, False, False, inside, _needed(a, b))


def _needed(*tensors):
    """For each tensor, whether it is computed from a parameter; the framework computes no other gradients."""
    return tuple(isinstance(tensor, Parameter) or _is_trained(tensor._grad_node, set()) for tensor in tensors)


def _is_trained(node, seen):
    if node is None or node._unique_id() in seen:
        return False
    seen.add(node._unique_id())
    if node.is_leaf():
        return not node.name().startswith("input_")  # the leaf of a parameter has its name
    return any(_is_trained(before, seen) for before, _ in node.next_functions)


def _axes(x, axis):
    if axis is None:
        return tuple(range(x.ndim))
    return tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)


def _mean(inside):
    def mean(x, axis=None, keep_dims=False):
        axes = _axes(x, axis)
        return kernels.Sum.apply(x, axes, keep_dims, float(np.prod([x.shape[a] for a in axes])), inside)

    return mean


def _sum(inside):
    def total(x, dim=None, keepdim=False):
        return kernels.Sum.apply(x, _axes(x, dim), keepdim, 1.0, inside)

    return total


def _primitives(inside):
    """Kernels by class of primitive; each is given the primitive's own call, the primitive and the arguments."""

    def matmul(_, p, a, b):
        return kernels.MatMul.apply(a, b, p.transpose_a, p.transpose_b, inside, _needed(a, b))

    def convolution(_, p, x, w):
        return kernels.Conv2D.apply(x, w, p.stride[2], p.padding[0], inside, _needed(x, w))

    def layer_norm(_, p, x, gamma, beta):
        return kernels.LayerNorm.apply(x, gamma, beta, p.epsilon, inside)

    def batch_norm(original, p, x, gamma, beta, *running):
        if not p.is_training:
            return original(p, x, gamma, beta, *running)
        rest = original(p, *map(ops.stop_gradient, (x, gamma, beta)), *running)[1:]  # moves the running statistics
        return kernels.BatchNorm.apply(x, gamma, beta, p.epsilon, inside), *rest

    products = {"MatMul": matmul, "Conv2D": convolution}
    return {**products, "LayerNorm": layer_norm, "BatchNorm": batch_norm} if inside.order else products


def _primitive(instead, original):
    @wraps(original)
    def __call__(primitive, *args):
        return instead(original, primitive, *args)

    return __call__


def _like(original, function):
    return wraps(original)(function)
