"""Which member of a consumer group runs which unit."""

from collections.abc import Iterable, Sequence


def assign_units(units: int, members: Iterable[str]) -> dict[int, str]:
    """Assign unit n to the member n modulo their number in the order of their ids.

    Raises ValueError without members.
    """
    ordered: Sequence[str] = sorted(members)
    if not ordered:
        raise ValueError("a consumer group without members can run no unit")
    return {number: ordered[number % len(ordered)] for number in range(units)}
