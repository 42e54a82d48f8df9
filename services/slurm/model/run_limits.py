"""Time limits that somebody changes on jobs that run: pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from coplace.v1.ingest_service_pb2 import Envelope

from coplace_client.bounds import WALLTIME_S
from coplace_client.facts import limit_changed
from services.slurm.model.facts import id_of
from services.slurm.model.jobs import SlurmJob
from shared.slurm.answers import number
from shared.slurm.facts import Site

_ATTEMPT: Final = 1
_SECOND_US: Final = 1_000_000
# Slurm has whole minutes, and starts a job a little later than its start was decided.
_SAME_US: Final = 90 * _SECOND_US


class RunLimits:
    """Compares runs from look to look; the first with `ends_by_us`, until when placement lets them
    run, by their ids. A suspended run is compared once it goes on."""

    def __init__(self) -> None:
        # None: without a limit.
        self._known: Mapping[str, int | None] = {}

    def events(
        self, shown: Iterable[SlurmJob], site: Site, at_us: int, ends_by_us: Mapping[str, int]
    ) -> Iterator[Envelope]:
        """Yield that runs have another limit than before."""
        before, self._known = self._known, {}
        for job in shown:
            if not job.has_nodes or job.is_configuring or not (job_id := id_of(job, site)):
                continue
            if job.is_suspended:
                if job_id in before:
                    self._known[job_id] = before[job_id]
                continue
            limit_min = self._known[job_id] = number(job.fields.get("time_limit"))
            ends_us = _ends_us(job, limit_min)
            was_us = ends_by_us.get(job_id, ends_us)
            is_changed = (
                before[job_id] != limit_min
                if job_id in before
                else abs(was_us - ends_us) > _SAME_US
            )
            if is_changed and ends_us:
                grant = 0 if job.is_part else job.word.grant
                yield limit_changed(site.name, job_id, _ATTEMPT, grant, ends_us, at_us)


def _ends_us(job: SlurmJob, limit_min: int | None) -> int:
    """Return when Slurm ends a run; one without a limit after the longest that there is."""
    if limit_min:
        return job.asked("end_time") * _SECOND_US
    return (job.asked("start_time") + int(WALLTIME_S.most)) * _SECOND_US
