"""The frames of a call stack: their text, and which line is the user's."""

import pytest

from msprobe.store.stacks_and_construct import Line, frame, user_line

PACKAGES = "/home/user/env/lib/python3.11/site-packages"


def test_a_frame_is_written_as_stack_json_has_it():
    made = frame(Line("/home/user/net.py", 22), "construct", "h = self.fc(x)")
    assert made == "File /home/user/net.py, line 22, in construct, \n h = self.fc(x)"
    assert user_line([made]) == ("/home/user/net.py", 22)


@pytest.mark.parametrize(
    "file",
    [
        f"{PACKAGES}/mindspore/nn/cell.py",
        f"{PACKAGES}/torch/nn/modules/module.py",
        f"{PACKAGES}/msprobe/cell_dump/session.py",
        "C:\\env\\lib\\site-packages\\mindspore\\nn\\cell.py",
        "/opt/dist-packages/mindspore/ops.py",
        "/src/mindspore/python/mindspore/nn/cell.py",
        "<string>",
    ],
)
def test_lines_of_the_framework_and_of_this_tool_are_not_the_users(file):
    inner = frame(Line(file, 7), "construct", "x")
    assert user_line([inner]) is None
    assert user_line([inner, frame(Line("/home/user/mindspore/net.py", 3), "f", "y")]) == (
        "/home/user/mindspore/net.py",
        3,
    )


def test_other_packages_count_as_the_users_and_no_stack_has_no_line():
    assert user_line([frame(Line(f"{PACKAGES}/mindformers/net.py", 5), "f", "x")]) == (
        f"{PACKAGES}/mindformers/net.py",
        5,
    )
    assert user_line([]) is None
    assert user_line(["not a frame"]) is None
