"""Pages of jobs in the order of their ids: a page begins behind the last job of the one before."""

from base64 import b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import Iterator

from coplace_client.errors import RejectedError
from shared.placement.state.job_record import JobRecord
from shared.placement.state.job_table import JobTable


class JobsById:
    """The jobs of a table in the order of their ids, sorted anew where some came or were forgotten.

    A job keeps its place whatever happens to it: who reads page after page reads each job that is
    there meanwhile once.
    """

    def __init__(self, table: JobTable) -> None:
        self._table = table
        self._ids: list[str] = []
        self._sorted_at = (0, 0)

    def after(self, token: str) -> Iterator[JobRecord]:
        """Yield the jobs behind a page of this token; all of them without one. Raises
        RejectedError for what is no token."""
        ids = self._in_order()
        start = bisect_right(ids, _last_id(token)) if token else 0
        found = (self._table.get(ids[place]) for place in range(start, len(ids)))
        return (job for job in found if job is not None)

    def _in_order(self) -> list[str]:
        """Ids are added with a new arrival number each, so two numbers say whether they changed."""
        jobs = self._table.ids()
        state = (self._table.next_arrival, len(jobs))
        if state != self._sorted_at:
            # The old ones are in order: what is sorted is little more than the new ones.
            before = [job_id for job_id in self._ids if job_id in jobs]
            self._ids = sorted([*before, *(jobs - set(before))])
            self._sorted_at = state
        return self._ids


def page_token(job_id: str) -> str:
    """Return the token of the page that ends with this job."""
    return urlsafe_b64encode(job_id.encode()).decode()


def _last_id(token: str) -> str:
    try:
        return b64decode(token.encode("ascii"), altchars=b"-_", validate=True).decode()
    except ValueError:
        problem = f"must be the next_page_token of an answer, got {token[:40]!r}"
        raise RejectedError("page_token", problem) from None
