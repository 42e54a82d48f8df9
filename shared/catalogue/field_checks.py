"""Checks of one value in a message: they raise RejectedError, which names the field within it."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final

from coplace_client.bounds import LENGTHS, QUANTITIES, Bound
from coplace_client.checks import require_text
from coplace_client.errors import RejectedError
from shared.catalogue.texts import MOST_LIST_BYTES
from shared.domain.resources import require_resources, resources_of

YEAR_2000_US: Final = 946_684_800_000_000
_YEAR_10000_US: Final = 253_402_300_800_000_000

Check = Callable[[Any], None]


def anything(_value: object) -> None:
    """Whatever its protobuf type lets through."""


def text(value: str) -> None:
    """1 to 256 printable characters."""
    require_text("", value)


def text_or_empty(value: str) -> None:
    """At most 256 printable characters."""
    if value:
        require_text("", value)


def host_list(value: str) -> None:
    """The name of a node or a host list of names: printable, as long as a list of texts may be."""
    require_text("", value, limit=MOST_LIST_BYTES)


def within(bound: Bound) -> Check:
    """A quantity of the field's bound."""

    def check(value: float) -> None:
        bound.require("", value)

    return check


def quantity(name: str) -> Check:
    """What is declared for a field of this name."""
    return within(QUANTITIES[name])


def if_known(name: str) -> Check:
    """Likewise, where 0 says that nobody knows."""
    bound = QUANTITIES[name]

    def check(value: float) -> None:
        bound.require_if_known("", value)

    return check


def time_us(value: int) -> None:
    """A time from the year 2000 that a calendar has."""
    if value < YEAR_2000_US:
        raise RejectedError("", f"must not lie before the year 2000, got {value} us")
    if value >= _YEAR_10000_US:
        raise RejectedError("", f"must lie before the year 10000, got {value} us")


def time_us_or_never(value: int) -> None:
    """A time, or 0 for what never happened."""
    if value != 0:
        time_us(value)


ATTEMPT: Final[Mapping[str, Check]] = {"job_id": text, "attempt": quantity("attempt")}


def one_of(values: Iterable[tuple[str, int]]) -> Check:
    """An enum value that this version knows, other than UNSPECIFIED (0)."""
    names = {value: name for name, value in values if value}

    def check(value: int) -> None:
        if value not in names:
            raise RejectedError("", f"must be one of {', '.join(names.values())}, got {value}")

    return check


def one_of_or_none(values: Iterable[tuple[str, int]]) -> Check:
    """Likewise, where it may be left open."""
    check = one_of(values)
    return lambda value: check(value) if value else None


def named(names: Iterable[str]) -> Check:
    """One of these names."""
    known = tuple(names)

    def check(value: str) -> None:
        if value not in known:
            raise RejectedError("", f"must be one of {', '.join(known)}, got {value[:40]!r}")

    return check


def resources(counts: Mapping[str, int]) -> None:
    """Named resources as the domain knows them: of a unit, or of a node."""
    require_resources("", resources_of(counts))


def each(name: str, check: Check) -> Check:
    """A list of at least one value, all of which pass `check`, as long as declared for its name."""
    check_any = each_of_any(name, check)

    def check_all(values: Sequence[Any]) -> None:
        if not len(values):
            raise RejectedError("", "must hold at least one value")
        check_any(values)

    return check_all


def each_of_any(name: str, check: Check) -> Check:
    """A list, which may be empty, whose values pass `check`; its length is looked at first."""
    length = LENGTHS[name]

    def check_all(values: Sequence[Any]) -> None:
        length.require("", len(values))
        for index, value in enumerate(values):
            try:
                check(value)
            except RejectedError as error:
                raise _inside(f"[{index}]", error) from None

    return check_all


def fields(checks: Mapping[str, Check], *further: Callable[[Any], object]) -> Check:
    """A message whose every field passes its check, and which then passes the further ones."""

    def check_fields(message: Any) -> None:
        for name, check in checks.items():
            try:
                check(getattr(message, name))
            except RejectedError as error:
                raise _inside(name, error) from None
        for whole in further:
            whole(message)

    return check_fields


def ascending(*names: str) -> Check:
    """Times that follow one another; those that never happened (0) are left out."""

    def check(message: Any) -> None:
        known = [(name, getattr(message, name)) for name in names if getattr(message, name)]
        for (earlier, early_us), (later, late_us) in pairwise(known):
            if late_us < early_us:
                raise RejectedError(later, f"must not lie before {earlier}")

    return check


def _inside(name: str, error: RejectedError) -> RejectedError:
    """The error of a part as one of the whole: paths are made only when something is wrong."""
    joint = "" if not error.field or error.field.startswith("[") else "."
    return RejectedError(f"{name}{joint}{error.field}", error.problem)
