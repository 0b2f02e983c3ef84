"""The dynamic switch between steps: which changes of its file are noticed."""

import os

from msprobe.monitor.switch import Switch

OFF, ON = '{"dynamic_on": false}', '{"dynamic_on": true }'


def write(path, text, nanoseconds):
    """Write a file, changed at a time."""
    path.write_text(text)
    os.utime(path, ns=(nanoseconds, nanoseconds))


def test_a_file_of_the_same_size_that_changed_is_read_once(tmp_path):
    path = tmp_path / "monitor.json"
    write(path, OFF, 10**18)
    switch = Switch(path)
    assert switch.enabling_settings() is None
    write(path, ON, 10**18 + 1)
    assert len(ON) == len(OFF)
    assert switch.enabling_settings().dynamic_on
    assert switch.enabling_settings() is None, "it has not changed again"


def test_a_file_that_does_not_exist_yet_is_read_when_it_does(tmp_path):
    path = tmp_path / "monitor.json"
    switch = Switch(path)
    assert switch.enabling_settings() is None
    path.write_text(ON)
    assert switch.enabling_settings().dynamic_on


def test_turning_off_is_no_change_to_be_read(tmp_path):
    path = tmp_path / "monitor.json"
    path.write_text(ON)
    switch = Switch(path)
    switch.turn_off()
    assert switch.enabling_settings() is None
    write(path, ON, 10**18)
    assert switch.enabling_settings().dynamic_on
