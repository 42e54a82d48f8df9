"""The last run times of each user."""

from heapq import nsmallest
from operator import itemgetter
from typing import Final, NamedTuple

from coplace.v1.jobs_pb2 import JobFinished

from shared.scheduling.user_runs import ExpectedRun, LastRuns, after_run, expected_run
from shared.streams.state.state import State

# Of more, those whose last run ended the longest ago are forgotten, a tenth at once.
_MOST_USERS: Final = 50_000


class RunsOfUser(NamedTuple):
    """The last run times of a user, the newest last, and when that run ended."""

    last_s: LastRuns
    ended_us: int


class UserRuns:
    """Keeps the last run times of each user, whatever the policy says of them: it may say another
    thing tomorrow."""

    def __init__(self, state: State) -> None:
        self._rows = state.table("user-runs", RunsOfUser)

    def __len__(self) -> int:
        return len(self._rows)

    def expected(self, user: str) -> ExpectedRun:
        """Return what the last runs of a user say of the next."""
        known = self._rows.get(user)
        return expected_run(known.last_s if known else ())

    def note(self, user: str, message: JobFinished) -> None:
        """Note a run that ended, if it ever began."""
        if not message.started_at_us:
            return
        run_s = ran_s(message)
        known = self._rows.get(user)
        last_s = after_run(known.last_s if known else (), run_s)
        self._rows.put(user, RunsOfUser(last_s, message.ended_at_us))
        if len(self._rows) > _MOST_USERS:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        ended = ((row.ended_us, user) for user, row in self._rows.rows.items())
        for _, user in nsmallest(_MOST_USERS // 10, ended, key=itemgetter(0, 1)):
            self._rows.drop(user)


def ran_s(message: JobFinished) -> float:
    """Return for how long a job ran that began."""
    return max(message.ended_at_us - message.started_at_us, 0) / 1e6
