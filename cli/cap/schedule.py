"""Periods of a cap as operators write them, and their steps."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from coplace.v1.control_pb2 import PowerCapStep
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from cli.times import format_utc, time_us
from coplace_client.bounds import POWER_CAP_W
from coplace_client.errors import UnusableError
from shared.process.plain_numbers import PlainModel
from shared.process.user_files import read_yaml


class Period(PlainModel):
    """A cap from a time until another one, or for good. Raises pydantic.ValidationError."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    watts: float = Field(ge=POWER_CAP_W.least, le=POWER_CAP_W.most, allow_inf_nan=False)
    from_us: int = Field(alias="from")
    until_us: int | None = Field(None, alias="until")

    @field_validator("from_us", "until_us", mode="before")
    @classmethod
    def _read_time(cls, value: Any) -> Any:
        return time_us(str(value))


class _ScheduleFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    periods: list[Period] = Field(min_length=1)


def read_schedule(path: Path) -> list[Period]:
    """Read periods from YAML: `periods`, a list of `from`, `until` and `watts`, in any order.

    Raises OSError when the file cannot be read, UnusableError when it is not of this form.
    """
    try:
        return _ScheduleFile.model_validate(read_yaml(path)).periods
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(map(str, each['loc'])) or 'it'}: {each['msg']}" for each in error.errors()
        )
        raise UnusableError(f"{path} is not a valid schedule of a cap: {problems}") from error


def steps(periods: Sequence[Period]) -> list[PowerCapStep]:
    """Return the steps of periods; no cap applies between two that do not meet. Raises
    UnusableError for those that end before they begin and those that overlap."""
    found: list[PowerCapStep] = []
    ordered = sorted(periods, key=lambda period: period.from_us)
    for period in ordered:
        if period.until_us is not None and period.until_us <= period.from_us:
            raise UnusableError(f"a period must end after it begins: {describe_period(period)}")
    for period, following in pairwise(ordered):
        if period.until_us is None or following.from_us < period.until_us:
            raise UnusableError(
                f"periods overlap: {describe_period(period)}, and {describe_period(following)}"
            )
    for period in ordered:
        if found and found[-1].from_us == period.from_us:
            found.pop()
        found.append(PowerCapStep(from_us=period.from_us, watts=period.watts))
        if period.until_us is not None:
            found.append(PowerCapStep(from_us=period.until_us))
    return found


def describe_period(period: Period) -> str:
    """Return a period in words."""
    until = f" until {format_utc(period.until_us)}" if period.until_us is not None else " on"
    return f"{period.watts:,g} W from {format_utc(period.from_us)}{until}"
