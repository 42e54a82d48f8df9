"""Caps that follow a signal."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.cap.signal import RulePoint, SignalRule, read_signal
from cli.times import time_us
from coplace_client.errors import RejectedError, UnusableError

EIGHT_US = time_us("2026-07-01T08:00:00Z")
QUARTER_US = 900_000_000
RULE = SignalRule.parse("0.1=250000,0.4=100000")


def signal(folder: Path, *rows: str, column: str = "price_per_kwh") -> Path:
    path = folder / "signal.csv"
    path.write_text("\n".join([f"time,{column}", *rows]))
    return path


def found(path: Path, now_us: int = EIGHT_US) -> list[tuple[float, float]]:
    return [
        ((step.from_us - EIGHT_US) / QUARTER_US, step.watts)
        for step in read_signal(path, RULE, now_us)
    ]


def test_each_value_holds_until_the_next_and_the_least_behind_the_last(tmp_path: Path) -> None:
    rows = ["2026-07-01T08:00,-0.05", "2026-07-01T08:15,0.25", "2026-07-01T08:30,0.1"]
    expected = [(0, 250_000.0), (1, 175_000.0), (2, 250_000.0), (3, 100_000.0)]
    assert found(signal(tmp_path, *rows)) == expected
    assert found(signal(tmp_path, *rows), EIGHT_US + QUARTER_US + 1) == expected[1:]


def test_equal_caps_that_follow_one_another_are_one_step(tmp_path: Path) -> None:
    rows = ["2026-07-01T08:00,0.05", "2026-07-01T08:15,0.1", "2026-07-01T08:30,0.9"]
    assert found(signal(tmp_path, *rows)) == [(0, 250_000.0), (2, 100_000.0)]


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (["08:00,1", "08:15,1", "08:45,1"], "line 4"),
        (["08:00,1", "08:15,1", "08:45,1"], "the signal has a gap"),
        (["08:00,1", "08:15,1", "08:15,1"], "line 4"),
        (["08:15,1", "08:00,1"], "line 3"),
        (["08:00,1", "08:15,nan"], "must be finite, got nan in row 2 .line 3."),
        (["08:00,1", "08:15,"], "is empty in row 2 .line 3."),
        (["08:00,1", "08:60,1"], "is not a time such as .* in row 2 .line 3."),
        (["08:00,1", "08:15,dear"], "must be a number, got 'dear' in row 2 .line 3."),
    ],
)
def test_a_signal_with_gaps_is_refused_by_its_line(
    tmp_path: Path, rows: list[str], problem: str
) -> None:
    path = signal(tmp_path, *[f"2026-07-01T{row}" for row in rows])
    with pytest.raises(RejectedError, match=problem):
        found(path)


def test_a_signal_of_one_value_or_of_the_past_or_of_something_else_is_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(UnusableError, match="two times at least"):
        found(signal(tmp_path, "2026-07-01T08:00,1"))
    rows = "2026-07-01T08:00,1", "2026-07-01T08:15,1"
    with pytest.raises(UnusableError, match="is over: it ends at 2026-07-01T08:30:00Z"):
        found(signal(tmp_path, *rows), EIGHT_US + 2 * QUARTER_US)
    with pytest.raises(UnusableError, match="begins at 2026-07-01T08:00:00Z, and it is 2026-07-01"):
        found(signal(tmp_path, *rows), EIGHT_US - 1)
    with pytest.raises(UnusableError, match="price_per_kwh, gco2_per_kwh"):
        found(signal(tmp_path, *rows, column="euros"))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((text, "is not a rule") for text in ("", "1=2", "1=2,1=3", "1=2,nan=3", "1=2,3=inf")),
        *((text, "is not a rule") for text in ("1,2", "a=b,c=d")),
        *((f"100=10,200={w}", "watts at 200: must be from 1 to") for w in ("0", "-5")),
    ],
)
def test_what_is_no_rule_is_refused(text: str, problem: str) -> None:
    with pytest.raises((ValueError, UnusableError), match=problem):
        SignalRule.parse(text)


@given(
    points=st.lists(
        st.builds(RulePoint, st.integers(-100, 100), st.integers(1, 1_000)),
        min_size=2,
        max_size=6,
        unique_by=lambda point: point.value,
    ),
    value=st.floats(-200, 200),
)
def test_a_rule_stays_between_the_points_beside_a_value(
    points: list[RulePoint], value: float
) -> None:
    rule = SignalRule(points)
    below = max((p for p in points if p.value <= value), default=min(points))
    above = min((p for p in points if p.value >= value), default=max(points))
    least, most = sorted([below.watts, above.watts])
    assert least - 1 <= rule.watts(value) <= most
    assert all(rule.watts(point.value) == point.watts for point in points)
    assert rule.least_w <= rule.watts(value)
