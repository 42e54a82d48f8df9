"""`coplace energy misuse`: who names the wrong application, and how often."""

from collections.abc import Iterable
from dataclasses import dataclass

from coplace.v1.energy_pb2 import AppIdMisused
from rich.table import Table

from shared.catalogue.codec import format_time
from shared.catalogue.event import Event

TOPIC = "energy.advice"


@dataclass(frozen=True, slots=True)
class UserMisuse:
    """One user: `jobs` in all of the topic, `recent` as the advisor counted at the last of them,
    old ones less."""

    user: str
    jobs: int
    recent: float
    last_us: int
    last_job_id: str
    app_ids: tuple[str, ...]


def by_user(events: Iterable[Event]) -> list[UserMisuse]:
    """Return every user with a mismatch, the highest recent count first; copies count once."""
    found = {e.id: (e.time_us, e.payload) for e in events if isinstance(e.payload, AppIdMisused)}
    cases: dict[str, list[tuple[int, AppIdMisused]]] = {}
    for event_id in sorted(found, key=lambda event_id: (found[event_id][0], event_id)):
        case = found[event_id]
        cases.setdefault(case[1].user, []).append(case)
    users = [_of(user, own) for user, own in cases.items()]
    return sorted(users, key=lambda each: (-each.recent, each.user))


def table(users: Iterable[UserMisuse]) -> Table:
    """Return a table with a row for each user."""
    shown = Table("user", "jobs", "recent", "named", "last job", "last at")
    for each in users:
        named, at = ", ".join(each.app_ids), format_time(each.last_us)
        shown.add_row(each.user, str(each.jobs), f"{each.recent:.2f}", named, each.last_job_id, at)
    return shown


def _of(user: str, cases: list[tuple[int, AppIdMisused]]) -> UserMisuse:
    last_us, last = cases[-1]
    return UserMisuse(
        user=user,
        jobs=len(cases),
        recent=max(case.user_mismatches for at_us, case in cases if at_us == last_us),
        last_us=last_us,
        last_job_id=last.job_id,
        app_ids=tuple(sorted({case.app_id for _, case in cases})),
    )
