"""Users whose jobs say when they may start and must have ended, beside users who do not."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lab.workloads.request import JobRequest, RequestedDependency
from lab.workloads.streams import Stream, stream
from shared.domain.job import Condition

# At most so long after the submission, or after the other job, s.
_LATEST_BEGIN_S: Final = 4 * 3_600.0
_LONGEST_DELAY_S: Final = 1_800.0
# How often the limit lies between submission and deadline.
_TIGHTEST, _LOOSEST = 1.0, 8.0
# What a job may wait for that happens however the other one ends.
_CONDITIONS: Final = (Condition.AFTER, Condition.AFTER_ANY)
_KINDS: Final = 4


def with_start_terms(requests: Sequence[JobRequest], seed: int, share: float) -> list[JobRequest]:
    """Return the same jobs, a share of them with a begin, a deadline, a dependency on the job of
    their account before, or as singletons of their user, as many of each.

    Each job draws for itself, so that a longer workload begins with the same jobs.
    """
    draws = stream(seed, Stream.START_TERMS).random((len(requests), 3)).tolist()
    newest: dict[str, int] = {}
    found: list[JobRequest] = []
    for request, (draw, kind, amount) in zip(requests, draws, strict=True):
        before = newest.get(request.account)
        newest[request.account] = request.index
        is_timed = draw < share
        found.append(_timed(request, int(kind * _KINDS), amount, before) if is_timed else request)
    return found


def _timed(request: JobRequest, kind: int, amount: float, before: int | None) -> JobRequest:
    match kind:
        case 0:
            return replace(request, begin_s=request.submit_s + amount * _LATEST_BEGIN_S)
        case 1:
            times = _TIGHTEST + amount * (_LOOSEST - _TIGHTEST)
            return replace(request, deadline_s=request.submit_s + times * request.walltime_s)
        case 2 if before is not None:
            condition = _CONDITIONS[int(amount * len(_CONDITIONS))]
            delay_s = round(amount * _LONGEST_DELAY_S, 3)
            return replace(request, depends_on=(RequestedDependency(before, condition, delay_s),))
        case _:
            singleton = RequestedDependency(request.index, Condition.SINGLETON)
            return replace(request, job_name=request.app_id, depends_on=(singleton,))
