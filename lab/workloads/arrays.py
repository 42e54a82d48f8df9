"""Users who submit arrays of tasks in place of single jobs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lab.workloads.request import JobRequest
from lab.workloads.streams import Stream, stream

_MOST_TASKS: Final = 20
# How many of the arrays say how many of their tasks may have nodes at once.
_LIMITED: Final = 0.5


def with_arrays(requests: Sequence[JobRequest], seed: int, share: float) -> list[JobRequest]:
    """Return the same jobs, a share of them as arrays of up to twenty tasks, half of which may have
    nodes for a few of them at once only.

    Each job draws for itself, so that a longer workload begins with the same jobs.
    """
    draws = stream(seed, Stream.ARRAYS).random((len(requests), 3)).tolist()
    return [
        _array(request, size, limit) if draw < share else request
        for request, (draw, size, limit) in zip(requests, draws, strict=True)
    ]


def _array(request: JobRequest, size: float, limit: float) -> JobRequest:
    tasks = 1 + int(size * _MOST_TASKS)
    at_most = 1 + int(limit / _LIMITED * tasks) if limit < _LIMITED else 0
    return replace(request, array=f"0-{tasks - 1}", array_at_most=at_most)
