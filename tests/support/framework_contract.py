"""The tests that every framework passes: each capability against the interface, on small values worked out by hand."""

import inspect
from types import SimpleNamespace

import numpy as np
import pytest

from msprobe.base.errors import UsageError
from msprobe.frameworks import process
from msprobe.frameworks.interface import PROTOCOLS
from msprobe.frameworks.registry import REPLACE_REFERENCE, framework, name_of_model
from msprobe.store.monitor.layout import STATISTICS


def members(protocol):
    return {name for name in {*vars(protocol), *protocol.__annotations__} if not name.startswith("_")}


def same_signature(declared, found):
    """Return whether a method can be called as the protocol declares it."""
    ours = [each for each in inspect.signature(declared).parameters.values() if each.name != "self"]
    theirs = list(inspect.signature(found).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if [each.name for each in ours if each.kind not in positional] != [
        each.name for each in theirs if each.kind not in positional and each.default is not each.empty
    ]:
        return False
    return len([p for p in ours if p.kind in positional]) == len([p for p in theirs if p.kind in positional])


def check_interface(name):
    """Every offered capability has the members of its protocol, with signatures that accept the same calls."""
    offered = framework(name).offered()
    assert {"collecting", "debugger"} <= set(offered)
    for capability in set(offered) & set(PROTOCOLS):
        found = getattr(framework(name), capability)
        protocol = PROTOCOLS[capability]
        for member in members(protocol):
            assert hasattr(found, member), f"{name}.{capability} lacks {member}"
            declared = vars(protocol).get(member)
            if inspect.isfunction(declared):
                assert same_signature(declared, getattr(found, member)), f"{name}.{capability}.{member}"


def check_tensors(name):
    tensors = framework(name).tensors
    values = np.array([[1.5, -2.0], [0.0, 3.25]], np.float32)
    tensor = tensors.create(values, "float32")
    assert tensors.is_tensor(tensor)
    assert not tensors.is_tensor(values)
    tensors.settle()
    tensors.settle([tensor])
    assert tensors.array_to_save(tensor).tolist() == values.tolist()
    assert process.of_tensor(tensor).tensors.type_name == tensors.type_name
    assert tensors.array(tensor).tolist() == values.tolist()
    assert tensors.dtype(tensor) == "float32"
    assert tensors.text(tensor)[0] in ("(2, 2)", "[2, 2]")
    assert tensors.float_dtype(tensor) == tensors.dtype_of_name(f"{name}.float32")
    copy = tensors.copy(tensor)
    assert tensors.array(copy).tolist() == values.tolist()
    first, last = tensors.memory(copy)
    assert last - first >= values.nbytes
    begin, end = tensors.memory(tensor)
    assert end <= first or last <= begin, "a copy is in separate memory"
    other = tensors.with_values(values * 2, tensor)
    assert tensors.array(other).tolist() == (values * 2).tolist()
    version = tensors.version(copy)
    tensors.write(copy, other)
    assert tensors.array(copy).tolist() == (values * 2).tolist()
    assert tensors.memory(copy) == (first, last), "the elements are written into the memory of the tensor"
    assert tensors.version(copy) == version
    half = tensors.create(values, "float16")
    assert tensors.dtype(half) == "float16"
    assert tensors.dtype(tensors.raised(half)) == "float32"
    assert tensors.dtype(tensors.cast(tensor, half)) == "float16"
    tensors.refuse([tensor])


def check_statistics(name):
    values = np.array([3.0, -4.0, 0.0, 0.0], np.float32)
    statistics, tensors = framework(name).statistics, framework(name).tensors
    tensor = tensors.create(values, "float32")
    assert statistics.is_on_device([]) is False
    found = dict(zip(STATISTICS, statistics.fetch([statistics.of(tensor, 1e-8)])[0].tolist(), strict=True))
    assert found == {"norm": 5.0, "min": -4.0, "max": 3.0, "zeros": 0.5, "nans": 0.0, "mean": -0.25}
    total = statistics.total(statistics.copied(tensor), tensor)
    assert tensors.array(total).tolist() == [6.0, -8.0, 0.0, 0.0]
    assert tensors.array(statistics.difference(total, tensor)).tolist() == values.tolist()
    opposite = tensors.create(np.array([3.0, 4.0, 0.0, 1.0], np.float32), "float32")
    assert tensors.array(statistics.same_sign(tensor, opposite)).tolist() == [1.0, 0.0, 1.0, 0.0]


def check_modules(name, model, call, inside, parameters):
    """`call()` calls the model once; `inside` and `parameters` are the expected names."""
    modules = framework(name).modules
    assert name_of_model(model) == name
    assert name_of_model(object()) is None
    assert modules.is_model(model)
    assert not modules.is_model(object())
    assert [path for path, _ in modules.inside(model)] == inside
    assert [path for path, _ in modules.parameters(model)] == parameters
    modules.check(model)
    seen = []
    handles = modules.hook(model, lambda *_: seen.append("before"), lambda *_: seen.append("after"))
    end = modules.before_calls(model, lambda args, kwargs: seen.append(len(args)))
    call()
    assert sorted(map(str, seen)) == ["1", "after", "before"]
    for handle in handles:
        handle.remove()
    end()
    call()
    assert len(seen) == 3, "nothing remains on the model"


def check_functions(name, stem, public):
    """`stem` is a recorded function whose public name is `public`."""
    functions = framework(name).functions
    apis = list(functions.apis())
    assert len({(id(owner), attribute) for owner, attribute, _ in apis}) == len(apis), "each function once"
    (owner, attribute, _) = next(each for each in apis if each[2] == stem)
    assert functions.by_stem(stem) is getattr(owner, attribute)
    assert functions.by_stem("Nothing.of_this_name") is None
    assert functions.public_name(owner, attribute, stem) == public
    assert functions.is_random(owner, attribute) is False


def check_gradients(name, multiply):
    """`multiply(a, b)` is an operation of the framework: its gradients are b and a, times the incoming ones."""
    gradients, tensors = framework(name).gradients, framework(name).tensors
    mode = gradients.mode()
    gradients.set_mode(mode)
    assert gradients.mode() == mode
    a, b = (tensors.create(np.array(each, np.float32), "float32") for each in ([2.0, 3.0], [5.0, 7.0]))
    incoming = tensors.create(np.array([10.0, 100.0], np.float32), "float32")
    if name in REPLACE_REFERENCE:
        with pytest.raises(UsageError):
            gradients.vector_jacobian(multiply, [a, b], [incoming])
        return
    found = gradients.vector_jacobian(lambda x, y: (multiply(x, y),), [a, b], [incoming])
    assert [tensors.array(each).tolist() for each in found] == [[50.0, 700.0], [20.0, 300.0]]
    value = tensors.create(np.array([4.0, 6.0], np.float32), "float32")
    made = gradients.substitute(a, value)
    assert tensors.array(made).tolist() == [4.0, 6.0]

    def with_other_elements(x, y):
        return (multiply(gradients.substitute(x, value), y),)

    found = gradients.vector_jacobian(with_other_elements, [tensors.copy(a), tensors.copy(b)], [incoming])
    assert [tensors.array(each).tolist() for each in found] == [[50.0, 700.0], [40.0, 600.0]]
    if gradients.can_repeat:
        a, b = tensors.copy(a), tensors.copy(b)
        with framework(name).execution.unnoticed([a, b]):
            found = gradients.of_call(lambda others: [multiply(*others)], [a, b], [1])
        assert [tensors.array(each).tolist() for each in found] == [[2.0, 3.0]]


def check_randomness(name, change):
    """`change()` changes the default generator: by drawing, or by a seed if the CPU has no kernel that draws."""
    randomness = framework(name).randomness
    assert randomness.is_traced is None or randomness.is_traced() is False
    assert len({each.op for each in randomness.functions}) == len(randomness.functions)
    before = randomness.states([])
    with randomness.restored([]):
        change()
        assert randomness.states([]) != before
    assert randomness.states([]) == before


def check_execution(name):
    execution, tensors = framework(name).execution, framework(name).tensors
    tensor = tensors.create(np.ones(2, np.float32), "float32", execution.place(0))
    execution.check()
    assert execution.autocast_dtype([tensor]) is None
    with execution.in_full_precision([tensor]), execution.unnoticed([tensor]):
        assert tensors.array(tensor).tolist() == [1.0, 1.0]
    if execution.has_places:
        assert tensors.is_on_cpu(tensors.on_cpu(tensor))


def check_distributed(name):
    distributed = framework(name).distributed
    assert distributed.rank() == 0
    assert distributed.group_rank(None) == 0
    assert distributed.size() == 1
    assert distributed.is_initialized() is False
    assert process.rank(name) is None
    modules, names = distributed.collectives()
    assert "all_reduce" in names
    assert all(any(hasattr(module, each) for module in modules) for each in ("all_reduce", "broadcast"))


def check_environment(name):
    settings = framework(name).environment.settings()
    assert settings["version"]
    assert settings["framework"] in ("mindspore", "pytorch")


def check_optimizer(name, optimizer, update, gradient):
    """`update()` runs the optimizer once; `gradient` are the elements of the gradient of its one parameter."""
    capability, tensors = framework(name).optimizers, framework(name).tensors
    capability.check(optimizer)
    (parameter,) = capability.parameters(optimizer)
    seen = []

    def before(gradients):
        seen.append(capability.update_of(optimizer, gradients, False, [parameter]))

    handles = capability.hook(optimizer, before, lambda: seen.append("after"))
    update()
    assert seen[1:] == ["after"]
    ((owner, found),) = seen[0].gradients
    assert owner is parameter
    assert tensors.array(found).tolist() == gradient
    for handle in handles:
        handle.remove()
    update()
    assert len(seen) == 2, "nothing remains on the optimizer"


def check_reported_gradients(name, optimizer, update, gradient):
    """A watch receives the gradient of each update."""
    received = []

    class Watch:
        def wants(self, name):
            return True

        def begin(self):
            received.append("begin")
            return True

        def take(self, name, array):
            received.append(np.asarray(array()).tolist())

        def end(self):
            received.append("end")

    probe = SimpleNamespace(watch=lambda names: Watch(), at_stop=lambda finish: None, destination=None)
    framework(name).optimizers.report_gradients(optimizer, probe)
    update()
    assert received == ["begin", gradient, "end"]
