"""Times as operators write them."""

import time

import pytest

from cli.times import format_utc, time_us

NOW_US = 1_782_892_512_000_000


@pytest.fixture(autouse=True)
def _frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time_ns", lambda: NOW_US * 1000)


@pytest.mark.parametrize(
    ("text", "later_s"),
    [
        ("now", 0),
        ("now+1minute", 60),
        ("now+90minutes", 5400),
        ("now+4hours", 4 * 3600),
        ("now+2days", 2 * 86_400),
        ("now+1week", 7 * 86_400),
        # Of the calendar it is UTC without a zone.
        *((f"2026-07-01T{of_day}", 288) for of_day in ("08:00:00Z", "08:00:00", "08")),
        ("2026-07-01T10:00:00+02:00", 288),
    ],
)
def test_a_time_may_be_from_now_or_of_the_calendar(text: str, later_s: int) -> None:
    assert time_us(text) == NOW_US + later_s * 1_000_000
    assert time_us(format_utc(time_us(text))) == time_us(text)


@pytest.mark.parametrize(
    "text", ["", "soon", "now+", "now+5", "now-1hour", "now+1 hour", "now+1.5hours", "tomorrow"]
)
def test_anything_else_is_no_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time such as"):
        time_us(text)
