"""`store/async_writer.py`: what is not whole is named by no record."""

import json

from msprobe.store.async_writer import leave_out
from msprobe.store.journal import Journal


def leaf(file, **more):
    return {"type": "mindspore.Tensor", "shape": [2], "data_name": file, **more}


def test_only_what_is_lost_leaves_the_entries():
    first = json.dumps({"input_args": [[leaf("A.input.0.0.npy", Max=1.5)], leaf("A.input.1.npy")]})
    second = json.dumps({"output": {"k": leaf("A.output.k.npy", Max=float("nan"))}})
    other = '{ "output" : [ {"type":"int","value":2} ] }'
    journal = Journal(entries={"A": [first, second], "B": [other]})
    leave_out(journal, {"A.input.0.0.npy": "disk full", "A.output.k.npy": "died"}.get)
    assert json.loads(journal.entries["A"][0]) == {
        "input_args": [[{"type": "mindspore.Tensor", "shape": [2], "Max": 1.5}], leaf("A.input.1.npy")]
    }
    assert journal.entries["A"][1] == '{"output":{"k":{"type":"mindspore.Tensor","shape":[2],"Max":NaN}}}'
    assert journal.entries["B"] == [other]
    assert [json.loads(item) for item in journal.missing] == [
        {"name": "A", "part": "input.0.0", "cause": "disk full"},
        {"name": "A", "part": "output.k", "cause": "died"},
    ]


def test_without_a_loss_no_text_changes():
    text = '{ "output": [{"type":"t", "data_name" : "A.output.0.npy"}] }'
    journal = Journal(entries={"A": [text]})
    leave_out(journal, lambda file: "")
    assert journal.entries == {"A": [text]}
    assert journal.missing == []


def test_each_file_is_asked_for_once_and_noted_once_per_call():
    requested = []

    def why(file):
        requested.append(file)
        return "gone"

    text = json.dumps({"output": [leaf("x.npy"), leaf("x.npy")]})
    journal = Journal(entries={"A": [text], "B": [text]})
    leave_out(journal, why)
    assert requested == ["x.npy"]
    assert [json.loads(item)["name"] for item in journal.missing] == ["A", "B"]
    assert "data_name" not in "".join(journal.entries["A"] + journal.entries["B"])


def test_a_text_that_looks_like_a_name_is_none():
    entry = {"output": [{"type": "str", "value": '"data_name":"x.npy"'}, leaf('层"\\.npy')]}
    journal = Journal(entries={"A": [json.dumps(entry)]})
    leave_out(journal, lambda file: "gone")
    assert json.loads(journal.entries["A"][0])["output"][0] == entry["output"][0]
    assert [json.loads(item)["part"] for item in journal.missing] == ['层"\\']


def test_what_a_user_saved_is_its_own_record():
    journal = Journal(
        entries={"x.0.debug": [json.dumps(leaf("x.0.debug.npy"))], "y.0.debug": [json.dumps([leaf("y.0.debug.1.npy")])]}
    )
    leave_out(journal, lambda file: "gone")
    assert json.loads(journal.entries["x.0.debug"][0]) == {"type": "mindspore.Tensor", "shape": [2]}
    assert [json.loads(item)["part"] for item in journal.missing] == ["", "1"]
