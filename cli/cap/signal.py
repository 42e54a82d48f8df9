"""A cap that follows the price or the carbon intensity of electricity: what a signal allows."""

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise
from math import isfinite
from pathlib import Path
from typing import Final, NamedTuple

from coplace.v1.control_pb2 import PowerCapStep

from cli.times import format_utc, time_us
from coplace_client.bounds import POWER_CAP_W
from coplace_client.errors import RejectedError, UnusableError
from coplace_client.numbers import finite_number
from shared.process.rows import FileRow, read_rows
from shared.process.tariff_files import PRICE_COLUMNS

_TIME: Final = "time"


class RulePoint(NamedTuple):
    """Up to so much may be drawn where the signal has this value."""

    value: float
    watts: float


class SignalRule:
    """From a signal to a cap: linear between points, flat below the first and above the last."""

    def __init__(self, points: Sequence[RulePoint]) -> None:
        self._points = sorted(points)

    @classmethod
    def parse(cls, text: str) -> "SignalRule":
        """Parse `VALUE=WATTS,VALUE=WATTS...`. Raises ValueError, for watts that no cap has too."""
        try:
            points = [RulePoint(*map(finite_number, each.split("="))) for each in text.split(",")]
        except (TypeError, ValueError):
            points = []
        values = {point.value for point in points}
        if len(values) < 2 or len(values) < len(points) or not all(map(_is_finite, points)):
            raise ValueError(
                f"{text!r} is not a rule of two points or more with different values, such as "
                "0.10=250000,0.40=180000"
            )
        for point in points:
            POWER_CAP_W.require(f"watts at {point.value:g}", point.watts)
        return cls(points)

    @property
    def least_w(self) -> float:
        """Return the watts that are allowed whatever the signal's value."""
        return min(point.watts for point in self._points)

    def watts(self, value: float) -> float:
        """Return the cap at a value of the signal, rounded down to a watt."""
        first, last = self._points[0], self._points[-1]
        if value <= first.value:
            return first.watts
        for low, high in pairwise(self._points):
            if value <= high.value:
                share = (value - low.value) / (high.value - low.value)
                return float(int(low.watts + share * (high.watts - low.watts)))
        return last.watts


def read_signal(path: Path, rule: SignalRule, now_us: int) -> list[PowerCapStep]:
    """Read the steps from now on of a CSV of `time` and one of PRICE_COLUMNS, at even distances.

    Each value holds until the next time. Behind the last one, which holds as long as those before
    it, the least that the rule allows holds until another cap is declared: a signal that is not
    fetched any more must not free what it held back. Nor may one that begins later: there would
    be no cap until then, since a declaration replaces all. Raises OSError, RejectedError naming the
    line, and UnusableError for a signal that is over or has not begun.
    """
    rows = read_rows(path, (_TIME,))
    columns = [name for name in PRICE_COLUMNS if name in rows[0].values]
    if len(columns) != 1:
        raise UnusableError(f"{path} needs one of the columns {', '.join(PRICE_COLUMNS)}")
    if len(rows) < 2:
        raise UnusableError(
            f"{path} needs two times at least, from which the length of a step is known"
        )
    times_us = _even_times_us(rows)
    end_us = 2 * times_us[-1] - times_us[-2]
    if end_us <= now_us:
        raise UnusableError(f"{path} is over: it ends at {format_utc(end_us)}")
    if times_us[0] > now_us:
        problem = f"{path} begins at {format_utc(times_us[0])}, and it is {format_utc(now_us)}"
        raise UnusableError(f"{problem}: there would be no cap until then; add the value of now")
    caps_w = [rule.watts(_value(row, columns[0])) for row in rows]
    held = [*zip(times_us, caps_w, strict=True), (end_us, rule.least_w)]
    to_come = [step for step, following in pairwise(held) if following[0] > now_us]
    return list(_merged([*to_come, held[-1]]))


def _even_times_us(rows: Sequence[FileRow]) -> list[int]:
    times_us = [_time_us(row) for row in rows]
    distance_us = times_us[1] - times_us[0]
    if distance_us <= 0:
        raise RejectedError(_TIME, f"must be later than the one before it in {rows[1].where}")
    for row, (before_us, time_us_) in zip(rows[1:], pairwise(times_us), strict=True):
        if time_us_ - before_us != distance_us:
            problem = f"must be {format_utc(before_us + distance_us)} after {format_utc(before_us)}"
            raise RejectedError(
                _TIME, f"{problem}, got {format_utc(time_us_)} in {row.where}: the signal has a gap"
            )
    return times_us


def _time_us(row: FileRow) -> int:
    try:
        return time_us(row.text(_TIME))
    except ValueError as error:
        raise RejectedError(_TIME, f"{error} in {row.where}") from None


def _value(row: FileRow, column: str) -> float:
    value = row.number_of(column)
    if not isfinite(value):
        raise RejectedError(column, f"must be finite, got {value} in {row.where}")
    return value


def _merged(steps: Sequence[tuple[int, float]]) -> Iterator[PowerCapStep]:
    """One step where several that follow one another allow the same."""
    for watts, alike in groupby(steps, key=lambda step: step[1]):
        yield PowerCapStep(from_us=next(alike)[0], watts=watts)


def _is_finite(point: RulePoint) -> bool:
    return isfinite(point.value) and isfinite(point.watts)
