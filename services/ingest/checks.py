"""Checks of one field: called with (field, value, limits), they raise RejectedError."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from shared.domain.checks import require_duration_s, require_positive, require_text
from shared.domain.errors import RejectedError

YEAR_2000_US: Final = 946_684_800_000_000


@dataclass(frozen=True, slots=True)
class Limits:
    """What a message may hold; facts of an emulated run may lie ahead of the wall clock."""

    latest_us: int
    max_message_bytes: int


Check = Callable[[str, Any, Limits], None]


def anything(_field: str, _value: object, _limits: Limits) -> None:
    """Whatever its protobuf type lets through."""


def text(field: str, value: str, _limits: Limits) -> None:
    """1 to 256 printable characters."""
    require_text(field, value)


def text_or_empty(field: str, value: str, _limits: Limits) -> None:
    """At most 256 printable characters."""
    if value:
        require_text(field, value)


def positive(field: str, value: float, _limits: Limits) -> None:
    """A number above 0 of a plausible magnitude."""
    require_positive(field, value)


def positive_or_zero(field: str, value: float, limits: Limits) -> None:
    """0, or a number above it of a plausible magnitude."""
    if value != 0:
        positive(field, value, limits)


def duration_s(field: str, value: float, _limits: Limits) -> None:
    """Seconds above 0, few enough to be added to a time in microseconds."""
    require_duration_s(field, value)


def time_us(field: str, value: int, limits: Limits) -> None:
    """A time between the year 2000 and the horizon."""
    if value < YEAR_2000_US:
        raise RejectedError(field, f"must not lie before the year 2000, got {value} us")
    if value > limits.latest_us:
        raise RejectedError(
            field, f"must not lie after the horizon of {limits.latest_us} us, got {value} us"
        )


def time_us_or_never(field: str, value: int, limits: Limits) -> None:
    """A time, or 0 for what never happened."""
    if value != 0:
        time_us(field, value, limits)


def one_of(values: Iterable[tuple[str, int]]) -> Check:
    """An enum value that this version knows, other than UNSPECIFIED (0)."""
    names = {value: name for name, value in values if value}

    def check(field: str, value: int, _limits: Limits) -> None:
        if value not in names:
            raise RejectedError(field, f"must be one of {', '.join(names.values())}, got {value}")

    return check


def each(check: Check) -> Check:
    """A list of at least one value, all of which pass `check`."""
    check_any = each_of_any(check)

    def check_all(field: str, values: Any, limits: Limits) -> None:
        if not len(values):
            raise RejectedError(field, "must hold at least one value")
        check_any(field, values, limits)

    return check_all


def each_of_any(check: Check) -> Check:
    """A list, which may be empty, whose values pass `check`."""

    def check_all(field: str, values: Any, limits: Limits) -> None:
        for index, value in enumerate(values):
            check(f"{field}[{index}]", value, limits)

    return check_all


def builds(of: Callable[[Any], object]) -> Check:
    """A message that the domain takes: it knows what no single field tells."""

    def check(field: str, message: Any, _limits: Limits) -> None:
        try:
            of(message)
        except RejectedError as error:
            raise RejectedError(f"{field}.{error.field}", error.problem) from None

    return check


def fields(checks: Mapping[str, Check], *further: Check) -> Check:
    """A message whose every field passes its check, and which then passes the further ones."""

    def check_fields(field: str, message: Any, limits: Limits) -> None:
        for name, check in checks.items():
            check(f"{field}.{name}", getattr(message, name), limits)
        for check in further:
            check(field, message, limits)

    return check_fields


def ascending(*names: str) -> Check:
    """Times that follow one another; those that never happened (0) are left out."""

    def check(field: str, message: Any, _limits: Limits) -> None:
        known = [(name, getattr(message, name)) for name in names if getattr(message, name)]
        for (earlier, early_us), (later, late_us) in pairwise(known):
            if late_us < early_us:
                raise RejectedError(f"{field}.{later}", f"must not lie before {earlier}")

    return check
