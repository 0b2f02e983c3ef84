"""Both sides of every layer of the table compute the same, with the same weights put in through its correspondence."""

import contextlib
import importlib
import inspect
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="both sides are run")
pytest.importorskip("torch", reason="both sides are run")

import mindspore
import torch
from mindspore import mint, nn

from msprobe.mapping.layers import counterpart_classes, layers, layers_of, parameter_name, reason_without
from msprobe.mapping.transform import parse

pytestmark = [pytest.mark.mindspore, pytest.mark.torch]

sys.path.append(str(Path(__file__).parent))  # the cases stand beside this file
_cases = importlib.import_module("layers_cases")
CASES, positive = _cases.CASES, _cases.p

BY_NAME = {layer.ms: layer for layer in layers()}


def to_mindspore(value):
    if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
        return tuple(map(to_mindspore, value))
    return mindspore.Tensor(value) if isinstance(value, np.ndarray) else value


def to_torch(value):
    if isinstance(value, tuple) and value and isinstance(value[0], np.ndarray):
        return tuple(map(to_torch, value))
    if not isinstance(value, np.ndarray):
        return value
    return torch.tensor(value.astype(np.int64) if value.dtype == np.int32 else value)


def flat(value):
    if isinstance(value, (tuple, list)):
        return [leaf for inner in value for leaf in flat(inner)]
    return [np.asarray(value.asnumpy() if isinstance(value, mindspore.Tensor) else value.detach().numpy())]


def golden_name(cell, name, shape):
    """PyTorch's name of a parameter of a cell, by way of the classes on the path to it; and the transform."""
    path = []
    *inner, own = name.split(".")
    while inner:
        whole = ".".join([*inner, own])
        found, _ = parameter_name(type(cell).__name__, whole, shape)
        if found != whole:
            return ".".join([*path, found]), ""
        of_class = layers_of(type(cell).__name__)
        path.append(next((layer.children[inner[0]] for layer in of_class if inner[0] in layer.children), inner[0]))
        cell = dict(cell.name_cells())[inner.pop(0)]
    found, transform = parameter_name(type(cell).__name__, own, shape)
    return ".".join([*path, found]), transform


def give_weights(cell, module, arguments=()):
    """Random weights for the cell, the same for the module through the correspondence; gives their names on both sides.

    Tensors that were `arguments` to the constructor stay.
    """
    state, names = module.state_dict(), {}
    for name, parameter in cell.parameters_and_names():
        if name.endswith("num_batches_tracked"):
            continue
        value = positive(*parameter.shape)
        parameter.set_data(mindspore.Tensor(value))
        pt_name, transform = golden_name(cell, name, parameter.shape)
        assert pt_name in state, f"{name} is no {pt_name}; there are {list(state)}"
        value = parse(transform)(value)
        assert value.shape == tuple(state[pt_name].shape)
        state[pt_name] = torch.tensor(value)
        names[name] = pt_name
    kept = {name for name in state if not name.endswith("num_batches_tracked") and name not in arguments}
    assert set(names.values()) == kept, "every parameter has been given"
    module.load_state_dict(state)
    return names


def built(case):
    """The layer of MindSpore, its counterpart with the same weights, and what their parameters are called."""
    layer = BY_NAME[case.ms]
    namespace = mint.nn if case.ms.startswith("mint") else nn
    cell = getattr(namespace, case.ms.rpartition(".")[2])(
        **{name: to_mindspore(v) for name, v in case.arguments.items()}
    )
    arguments = case.golden or {name: to_torch(value) for name, value in layer.arguments(case.arguments).items()}
    module = getattr(torch.nn, case.pt or layer.pt[0])(**arguments)
    cell.set_train(case.training)
    module.train(case.training)
    assert type(cell).__name__ == layer.ms_class
    return cell, module, give_weights(cell, module, case.arguments)


def is_verified(case):
    return not BY_NAME[case.ms].unverified


@pytest.mark.parametrize("case", [case for case in CASES if is_verified(case)], ids=str)
def test_both_sides_compute_the_same(case):
    cell, module, names = built(case)
    with torch.no_grad():
        golden = flat(module(*map(to_torch, case.inputs)))
    target = flat(cell(*map(to_mindspore, case.inputs)))
    if case.output:
        target = [case.output(value) for value in target]
    assert len(target) == len(golden)
    for mine, theirs in zip(target, golden, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=2e-5)
    if case.training:
        after = {name: parameter.asnumpy() for name, parameter in cell.parameters_and_names()}
        for name, pt_name in names.items():
            np.testing.assert_allclose(after[name], module.state_dict()[pt_name].numpy(), rtol=1e-4, err_msg=name)


@pytest.mark.parametrize("case", [case for case in CASES if not is_verified(case)], ids=str)
def test_the_weights_of_layers_that_do_not_run_here_have_counterparts(case):
    """The mark is true, and PyTorch's side runs with the weights all the same."""
    cell, module, _ = built(case)
    with torch.no_grad():
        module(*map(to_torch, case.inputs))
    assert not runs(cell, case.inputs), f"{case} runs here: take the mark away"


def runs(cell, inputs):
    """Whether MindSpore has the kernels of a layer here; what failed behind the scenes is not left to the next test."""
    try:
        flat(cell(*map(to_mindspore, inputs)))
    except Exception:  # whatever it is: MindSpore has a dozen ways to say that it has no kernel
        with contextlib.suppress(Exception):
            mindspore.runtime.synchronize()
        return False
    return True


def test_every_layer_with_a_counterpart_has_a_case():
    structure = {"nn.Cell", "nn.SequentialCell", "nn.CellList", "nn.CellDict"}
    within = {"nn.TransformerEncoder", "nn.TransformerDecoder"}
    elsewhere = {name for name in BY_NAME if name.endswith("Thor") or "SyncBatch" in name}
    assert {case.ms for case in CASES} == set(BY_NAME) - structure - within - elsewhere


def test_every_public_layer_is_in_the_table_or_has_a_reason():
    """Optimisers, schedules and wrappers of training are cells too, but no layers."""
    for namespace in (nn, mint.nn):
        for name, value in vars(namespace).items():
            is_layer = isinstance(value, type) and issubclass(value, nn.Cell) and not name.startswith("_")
            if is_layer and any(p in value.__module__ for p in (".layer", ".loss.", "mint.nn")):
                classes, reason = counterpart_classes(value.__name__), reason_without(value.__name__)
                assert bool(classes) != bool(reason), f"{name}: {classes} {reason}"
                assert all(hasattr(torch.nn, pt) or hasattr(torch.nn.modules.linear, pt) for pt in classes), name


FIRST_VALUES = {"embedding_table", "param_init", "init", "w", "dtype"} | {
    f"{name}_init" for name in ("weight", "bias", "gamma", "beta", "moving_mean", "moving_var")
}


def defaults_of(cls):
    return {n: p.default for n, p in inspect.signature(cls.__init__).parameters.items() if p.kind in (1, 3)}


@pytest.mark.parametrize("layer", [layer for layer in layers() if layer.ms != "nn.Pad"], ids=lambda layer: layer.ms)
def test_constructor_arguments_meet_and_defaults_that_differ_are_told(layer):
    namespace = mint.nn if layer.ms.startswith("mint") else nn
    theirs = defaults_of(getattr(torch.nn, layer.pt[0]))
    defaults = layer.defaults.get("ms", {})
    for name, default in defaults_of(getattr(namespace, layer.ms.rpartition(".")[2])).items():
        pt_name = layer.attributes.get(name, name)
        if name in FIRST_VALUES | {"self", "auto_prefix", "flags"} or (name == "p" and layer.ms == "nn.Dropout"):
            continue
        if name in layer.requires:
            assert default in (inspect.Parameter.empty, layer.requires[name]) or defaults[name] == default
            continue
        assert pt_name in theirs
        if name in defaults:
            assert defaults[name] == default
            assert layer.defaults["pt"].get(pt_name, theirs[pt_name]) == theirs[pt_name]
        elif default is not inspect.Parameter.empty and theirs[pt_name] is not torch.nn.functional.relu:
            assert layer.arguments({name: default})[pt_name] == pytest.approx(theirs[pt_name])
