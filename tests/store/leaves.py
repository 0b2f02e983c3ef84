"""A tensor's record as a dump holds it, and the records of a dump that was read."""

HEADER = {"task": "statistics", "level": "mix", "framework": "mindspore"}


def tensor(top=1.0, **more):
    return {
        "type": "mindspore.Tensor",
        "dtype": "Float32",
        "shape": [2],
        "Max": top,
        "Min": 0,
        "Mean": 0,
        "Norm": 0,
        **more,
    }


def rows(dump):
    return [record for call in dump.calls for record in call.records]
