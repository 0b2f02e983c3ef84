"""What nodes exchange with other ranks."""

import odd_dumps
import pytest
from made_dumps import forward, group, tensor, value, write


def link(node):
    return node["matched_distributed"]


def one(kind, rank, name, state="Nan"):
    return {"communications_type": kind, "nodes_info": {str(rank): [state, f"Distributed.{name}.forward"]}}


EXPECTED = [
    # what rank 0 shows, what rank 1 shows
    ("all_reduce.0", "send_receive", "send_receive"),
    ("broadcast.0", "send", "receive"),  # the root is 0
    ("scatter.0", "send", "receive"),
    ("gather.0", "send", "receive"),  # the root is 1
    ("reduce.0", "send", "receive"),
]


@pytest.mark.parametrize(("name", "of_zero", "of_one"), EXPECTED)
def test_collectives(tmp_path, draw, name, of_zero, of_one):
    drawn = draw("-tp", odd_dumps.ranks(tmp_path / "a"))
    node = f"Distributed.{name}.forward"
    assert link(drawn.npu(node, rank=0)) == one(of_zero, 1, name)
    assert link(drawn.npu(node, rank=1)) == one(of_one, 0, name)
    assert drawn.npu(node)["is_distributed"] == 1


def test_messages_go_from_rank_to_rank(tmp_path, draw):
    drawn = draw("-tp", odd_dumps.ranks(tmp_path / "a"))
    assert link(drawn.npu("Distributed.send.0.forward", rank=0)) == one("send", 1, "recv.0")
    assert link(drawn.npu("Distributed.recv.0.forward", rank=1)) == one("receive", 0, "send.0")
    assert link(drawn.npu("Distributed.isend.0.forward", rank=1)) == one("send", 0, "irecv.0")
    assert link(drawn.npu("Distributed.irecv.0.forward", rank=0)) == one("receive", 1, "isend.0")
    assert (link(drawn.npu("Module.m.M.forward.0")), drawn.npu("Module.m.M.forward.0")["is_distributed"]) == ({}, 0)


def test_of_a_comparison_the_number_of_the_other_node_is_shown(tmp_path, draw):
    sides = odd_dumps.ranks(tmp_path / "a"), odd_dumps.ranks(tmp_path / "b", changed=True)
    drawn = draw("-tp", sides[0], "-gp", sides[1])
    # its norm is 2, the golden's 20: a difference of 0.9, and equal inputs
    assert link(drawn.npu("Distributed.all_reduce.1.forward")) == one("send_receive", 1, "all_reduce.1", "1")
    assert link(drawn.npu("Distributed.all_reduce.0.forward")) == one("send_receive", 1, "all_reduce.0", "0")
    assert link(drawn.bench("Distributed.all_reduce.1.forward")) == one("send_receive", 1, "all_reduce.1")


def test_with_levels_the_level_of_the_other_node_is_shown(tmp_path, draw):
    world = {"group": group([0, 1])}
    for rank, output in ((0, tensor()), (1, tensor(float("nan")))):
        data = {"Distributed.all_reduce.0.forward": forward([tensor()], [output], world)}
        write(tmp_path / "a" / "step0" / f"rank{rank}", data)
    drawn = draw("-tp", tmp_path / "a", "-oc")
    name = "Distributed.all_reduce.0.forward"
    assert link(drawn.npu(name, rank=0)) == one("send_receive", 1, "all_reduce.0", "critical")
    assert link(drawn.npu(name, rank=1)) == one("send_receive", 0, "all_reduce.0")


def test_mint_functions_and_batches_are_linked_too(tmp_path, draw):
    def message(op, peer):
        return {"class_type": "mindspore.mint.distributed.P2POp", "tensor": tensor(), "op": op, "peer": peer}

    for rank in (0, 1):
        batch = [message("isend", 1 - rank), message("irecv", 1 - rank)]
        data = {
            "MintDistributed.broadcast.0.forward": forward([tensor(), value(1)], [tensor()]),
            "MintDistributed.batch_isend_irecv.0.forward": forward([batch], [tensor(), tensor()]),
        }
        write(tmp_path / "a" / "step0" / f"rank{rank}", data)
    drawn = draw("-tp", tmp_path / "a")
    nodes_info = {"0": ["Nan", "MintDistributed.broadcast.0.forward"]}
    assert link(drawn.npu("MintDistributed.broadcast.0.forward", rank=1)) == {
        "communications_type": "send",
        "nodes_info": nodes_info,
    }
    name = "MintDistributed.batch_isend_irecv.0.forward"
    assert link(drawn.npu(name, rank=0)) == [
        {"communications_type": kind, "nodes_info": {"1": ["Nan", name]}} for kind in ("send", "receive")
    ]


def test_of_three_ranks_only_the_root_is_linked_to_all(tmp_path, draw):
    for rank in range(3):
        data = {"Distributed.broadcast.0.forward": forward([tensor()], [tensor()], {"src": value(2)})}
        write(tmp_path / "a" / "step0" / f"rank{rank}", data)
    drawn = draw("-tp", tmp_path / "a")
    name = "Distributed.broadcast.0.forward"
    assert sorted(link(drawn.npu(name, rank=2))["nodes_info"]) == ["0", "1"]
    assert list(link(drawn.npu(name, rank=0))["nodes_info"]) == ["2"]


def test_one_rank_alone_is_linked_to_none(tmp_path, draw):
    odd_dumps.ranks(tmp_path / "a")
    drawn = draw("-tp", tmp_path / "a" / "step0" / "rank1")
    assert {str(link(node)) for node in drawn.nodes.values()} == {"{}"}
