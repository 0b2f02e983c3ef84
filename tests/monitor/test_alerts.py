"""Alerts: the rules of 8.1 by their formulas written out, and the one without settings on series worked out by hand."""

import io
import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from msprobe.base.errors import SettingsError
from msprobe.monitor.alerts import Alerts, AlertSettings, Anomaly, alert_settings, announce, message
from msprobe.monitor.rules import Nan, Robust, Turbulence
from msprobe.store.monitor.layout import STATISTICS


class Name(NamedTuple):
    vpp_stage: int
    name: str
    micro_step: int | None = None


WEIGHT = Name(0, "fc.weight")


def found(rules, series, operations=("norm",), targets=(WEIGHT,), kind="grad_reduced"):
    """The anomalies of a series: for each step the values, of shape (targets, operations)."""
    alerts = Alerts(rules)
    return [
        each
        for step, values in enumerate(series)
        for each in alerts.check(
            kind, targets, np.reshape(values, (len(targets), len(operations))), operations, step, rank=0
        )
    ]


def steps(anomalies):
    return [each.step for each in anomalies]


def test_turbulence_holds_a_magnitude_against_the_mean_of_those_before():
    series = [2.0, 3.0, -3.1, 2.0, 3.02, 3.03]
    mean, expected = 2.0, []
    for step, value in enumerate(series):
        if abs(value) > 1.5 * mean:
            expected.append((step, value, mean))
        mean = 0.99 * mean + 0.01 * abs(value)
    anomalies = found([Turbulence(threshold=0.5)], series, ("mean",))
    assert [(each.step, each.value, each.mean) for each in anomalies] == expected
    assert [step for step, _, _ in expected] == [2], "what is above 1.5 x 2.0 at step 5 is within the moved mean"


def test_turbulence_is_for_norm_and_mean_only():
    series = [[1.0] * 6, [100.0] * 6]
    anomalies = found([Turbulence(threshold=0)], series, STATISTICS)
    assert [each.operation for each in anomalies] == ["norm", "mean"]


def test_a_nan_does_not_spoil_the_mean():
    anomalies = found([Turbulence(threshold=1)], [math.nan, 1.0, math.nan, math.inf, 1.0, 2.5])
    assert steps(anomalies) == [3, 5]
    assert anomalies[1].mean == 1.0


@pytest.mark.parametrize("operation", STATISTICS)
def test_nan_and_what_is_beyond_a_threshold_are_found_in_every_operation(operation):
    series = [1.0, math.nan, -1e10, 1.1e10, -1.1e10, math.inf]
    assert steps(found([Nan()], series, (operation,))) == [1]
    assert steps(found([Nan(threshold=1e10)], series, (operation,))) == [1, 3, 4, 5]


def test_the_first_rule_that_matches_is_reported():
    series = [[1.0, 1.0], [50.0, 50.0]]
    both = [Turbulence(threshold=0.5), Nan(threshold=10)]
    named = [(each.operation, each.rule) for each in found(both, series, ("norm", "max"))]
    assert named == [("norm", "AnomalyTurbulence"), ("max", "AnomalyNan")]
    named = [(each.operation, each.rule) for each in found(both[::-1], series, ("norm", "max"))]
    assert named == [("norm", "AnomalyNan"), ("max", "AnomalyNan")]


def test_each_target_kind_and_micro_step_has_its_own_mean():
    alerts = Alerts([Turbulence(threshold=0.5)])
    first, second = Name(0, "fc", 0), Name(0, "fc", 1)
    for kind, base in (("actv", 1.0), ("actv_grad", 1000.0)):
        assert not alerts.check(kind, [first, second], np.array([[base], [10 * base]]), ["norm"], 0, 0)
    assert not alerts.check("actv", [second, first], np.array([[10.0], [1.0]]), ["norm"], 1, 0)
    assert not alerts.check("actv_grad", [second], np.array([[10000.0]]), ["norm"], 1, 0)
    (one,) = alerts.check("actv", [first], np.array([[10.0]]), ["norm"], 2, 0)
    assert (one.tag, one.micro_step, one.mean) == ("0:fc:0/rank0/actv", 0, 1.0)


def test_targets_may_come_and_go():
    alerts = Alerts([Turbulence(threshold=0.5)])
    names = [Name(0, f"p{at}") for at in range(40)]
    for step in range(20):
        chosen = names[: 2 * step + 1]
        values = np.array([[float(1 + names.index(each))] for each in chosen])
        assert not alerts.check("grad_reduced", chosen, values, ["norm"], step, 0)
    (one,) = alerts.check("grad_reduced", [names[5], names[38]], np.array([[6.0], [80.0]]), ["norm"], 20, 0)
    assert (one.tag, one.mean) == ("0:p38/rank0/grad_reduced", 39.0)


def test_an_anomaly_says_where_it_is():
    alerts = Alerts([Nan()], pp_stage=3, group_mates=[1, 5])
    nan = np.array([[1.0, 1.0], [1.0, math.nan]])
    alerts.check("actv", [Name(1, "a", 2), Name(1, "b", 2)], np.ones((2, 2)), ["norm", "max"], 7, 5)
    assert alerts.check("actv_grad", [Name(1, "a", 2), Name(1, "b", 2)], nan, ["norm", "max"], 7, 5) == [
        Anomaly(
            *("AnomalyNan", "1:b:2/rank5/actv_grad", "max", 7, 2),
            value=pytest.approx(math.nan, nan_ok=True),
            mean=pytest.approx(math.nan, nan_ok=True),
            rank=5,
            vpp_stage=1,
            pp_stage=3,
            call_id=3,
            group_mates=(1, 5),
        )
    ]
    (later,) = alerts.check("actv", [Name(1, "b", 2)], np.array([[math.nan]]), ["norm"], 8, 5)
    assert later.call_id == 0, "counted anew in each step"


def test_without_rules_or_targets_there_is_nothing():
    assert found([], [math.nan]) == []
    assert Alerts([Nan()]).check("actv", [], np.zeros((0, 1)), ["norm"], 0, 0) == []


# The rule without settings.


def noisy(count, seed=0, width=0.1):
    return np.exp(width * np.random.default_rng(seed).standard_normal(count))


@pytest.mark.parametrize("operation", ["norm", "min", "max", "mean"])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_jump_by_three_is_reported_once_where_it_begins(operation, sign):
    series = sign * noisy(300)
    series[200:] *= 3
    (one,) = found([Robust()], series, (operation,))
    assert (one.step, one.rule) == (200, "AnomalyRobust")
    before = np.abs(series[200 - 128 : 200])
    assert one.mean == pytest.approx(max(np.median(before), np.median(before[-5:])), rel=1e-3)


def test_a_single_spike_is_reported_and_the_next_one_too():
    series = noisy(300)
    series[[150, 160, 161]] *= 4
    assert steps(found([Robust()], series)) == [150, 160], "161 is the same spike"


def test_a_wide_noise_needs_a_higher_jump():
    series = noisy(400, width=0.5)
    for factor, expected in ((3, []), (1000, [300])):
        odd = series.copy()
        odd[300] = factor
        assert steps(found([Robust()], odd)) == expected


def test_early_falls_warm_up_and_slow_growth_are_no_anomalies():
    at = np.arange(2000.0)
    falling = 100 * np.exp(-at / 15) + 1
    rising = 1e-6 * 1.15 ** np.minimum(at, 100)
    moments = np.sqrt(1 - 0.999 ** (at + 1))
    cosine = 0.5 * (1 + np.cos(np.pi * at / 2001)) * np.minimum(1, (at + 1) / 100)
    for series in (falling, rising, moments, cosine):
        assert found([Robust()], series * noisy(2000, 1, 0.05)) == []


def test_zeros_before_the_first_value_are_no_level():
    series = np.concatenate([np.zeros(100), noisy(100)])
    assert found([Robust()], series) == [], "a gradient that begins"
    series[180] = 5
    assert steps(found([Robust()], series)) == [180]
    assert found([Robust()], np.where(np.arange(400) % 7, 0, noisy(400))) == [], "an expert that is rarely asked"


def test_a_nan_is_reported_when_it_appears():
    series = noisy(50)
    series[[3, 4, 5, 20]] = math.nan
    assert steps(found([Robust()], series)) == [3, 20]
    assert steps(found([Robust()], [math.nan, math.nan, 1.0])) == [0]


def test_an_infinity_is_reported_where_a_finite_value_was():
    assert found([Robust()], [-math.inf, -math.inf, -math.inf], ("min",)) == [], "a masked score"
    assert steps(found([Robust()], [1.0, math.inf, math.inf, 1.0, math.inf])) == [1, 4]


def test_a_count_of_nan_is_reported_and_zeros_is_not_judged():
    assert steps(found([Robust()], [0.0, 0.0, 3.0, 4.0, 0.0], ("nans",))) == [2]
    series = np.full(300, 0.001)
    series[200:] = 1.0
    assert found([Robust()], series, ("zeros",)) == []


def test_one_operation_of_a_target_is_reported():
    bad = [math.nan, math.nan, math.nan, 0.5, 2.0, math.nan]
    series = [[[1.0] * 4 + [0.0, 1.0]] * 2] * 2 + [[bad, [1.0] * 4 + [0.0, 1.0]]]
    (one,) = found([Robust()], series, STATISTICS, (Name(0, "a"), Name(0, "b")))
    assert (one.tag, one.operation) == ("0:a/rank0/grad_reduced", "norm")


def test_many_noisy_series_are_quiet_and_each_jump_among_them_is_found():
    rng = np.random.default_rng(5)
    targets = tuple(Name(0, f"p{at}") for at in range(50))
    level = np.exp(3 * rng.standard_normal((1, 50, 6)))
    series = level * np.exp(0.04 * rng.standard_normal((600, 50, 6)))
    series[:, :, 4] = 0
    assert found([Robust()], series, STATISTICS, targets) == []
    where = {int(at): int(row) for at, row in zip(range(100, 600, 10), rng.permutation(50), strict=True)}
    for at, row in where.items():
        series[at, row, 2] *= 3
    anomalies = found([Robust()], series, STATISTICS, targets)
    assert {each.step: int(each.tag[3:].split("/")[0]) for each in anomalies} == where
    assert {each.operation for each in anomalies} == {"max"}
    assert len(anomalies) == len(where)


# Settings.


def test_settings_have_all_rules_and_dump():
    given = {
        "rules": [
            {"rule_name": "AnomalyTurbulence", "args": {"threshold": 0.5}},
            {"rule_name": "AnomalyNan", "args": {"threshold": 1e10}},
            {"rule_name": "AnomalyNan"},
            {"rule_name": "AnomalyRobust"},
        ],
        "dump": True,
    }
    rules = (Turbulence(threshold=0.5), Nan(threshold=1e10), Nan(), Robust())
    assert alert_settings(given) == AlertSettings(rules=rules, dump=True)
    assert alert_settings({}) == AlertSettings()


def test_an_unknown_rule_is_a_type_error_too():
    for error in (SettingsError, TypeError):
        with pytest.raises(error, match="did you mean"):
            alert_settings({"rules": [{"rule_name": "AnomalyNaN"}]})
    with pytest.raises(TypeError):
        alert_settings({"rules": [{}]})


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ([], "object"),
        ({"rule": []}, '"rule"'),
        ({"dump": "yes"}, "dump"),
        ({"rules": {}}, "rules: "),
        ({"rules": ["AnomalyNan"]}, "rules: entry 0: "),
        ({"rules": [{"rule_name": "AnomalyNan", "arg": {}}]}, '"arg"'),
        ({"rules": [{"rule_name": "AnomalyNan", "args": 3}]}, "args: "),
        ({"rules": [{"rule_name": "AnomalyRobust"}, {"rule_name": "AnomalyTurbulence"}]}, 'entry 1.*"threshold"'),
        ({"rules": [{"rule_name": "AnomalyTurbulence", "args": {"threshold": None}}]}, '"threshold"'),
        ({"rules": [{"rule_name": "AnomalyTurbulence", "args": {"threshold": -0.1}}]}, "threshold: -0.1"),
        ({"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": "1e10"}}]}, "threshold: "),
        ({"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": True}}]}, "threshold: true"),
        ({"rules": [{"rule_name": "AnomalyNan", "args": {"threshold": math.inf}}]}, "threshold: "),
        ({"rules": [{"rule_name": "AnomalyRobust", "args": {"threshold": 3}}]}, '"threshold"'),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_place(given, named):
    with pytest.raises(SettingsError, match=named):
        alert_settings(given)


# Messages.

ONE = Anomaly("AnomalyNan", "0:a/rank0/actv", "norm", 3, 0, math.nan, 1.5, 0, 0, 0, 7, (0,))


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_message_is_that_of_8_1():
    where = "('0:a/rank0/actv', 'norm') at step 3"
    assert message(ONE) == (f"Rule AnomalyNan reports anomaly signal in {where}, current value nan, history mean 1.5.")
    assert message(replace(ONE, rule="AnomalyRobust")).endswith("history median 1.5.")


def test_messages_are_coloured_on_a_terminal_only():
    file, terminal = io.StringIO(), Terminal()
    announce([ONE], file)
    announce([replace(ONE, tag="a\x1b[31m")], terminal)
    assert file.getvalue() == message(ONE) + "\n"
    assert terminal.getvalue().startswith("\x1b[93mRule")
    assert terminal.getvalue().count("\x1b") == 2, "a name does not steer the terminal"


def test_of_many_messages_the_first_are_printed():
    file = io.StringIO()
    announce([replace(ONE, call_id=at) for at in range(1000)], file)
    assert len(file.getvalue().splitlines()) == 11
    assert "990 more" in file.getvalue()
    announce([], file)
    assert len(file.getvalue().splitlines()) == 11
