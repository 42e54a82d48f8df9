"""Which facts of Slurm's jobs this process has published: none is sent twice, though Slurm shows a
job for long and its plugin keeps a file of each run that ended."""

import time
from collections.abc import Callable, Iterable, Mapping, Set
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope

# Until a look at Slurm shows a run that ended, or Slurm has forgotten it.
_REMEMBERED_S: Final = 600.0


class PublishedFacts:
    """Remembers facts by their ids: of jobs that Slurm shows, and for a while what was said of runs
    that ended from their files."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._shown: Set[str] = frozenset()
        self._of_files_s: dict[str, float] = {}
        self.submitted: Set[str] = frozenset()
        """Jobs whose submission was published: what is said of a run that is over holds one too."""

    def has(self, event: Envelope) -> bool:
        """Return whether a fact was published."""
        is_known = event.id in self._shown or event.id in self._of_files_s
        return is_known or event.job_submitted.job_id in self.submitted

    def note(self, events: Iterable[Envelope]) -> None:
        """Note what was published from files."""
        now_s = self._now_s()
        for event_id, at_s in list(self._of_files_s.items()):
            if now_s - at_s <= _REMEMBERED_S:
                break
            del self._of_files_s[event_id]
        self._of_files_s.update((event.id, now_s) for event in events)

    def remember(self, shown: Mapping[str, Envelope]) -> None:
        """Remember what was published of the jobs that Slurm shows: it forgets jobs that ended, and
        so does this."""
        self._shown = frozenset(shown)
        self.submitted = {event.job_submitted.job_id for event in shown.values()} - {""}
