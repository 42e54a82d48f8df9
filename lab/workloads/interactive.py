"""Users that sit before a terminal until their jobs start."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lab.workloads.request import JobRequest
from lab.workloads.streams import Stream, stream

# How many of them wait no longer than this.
_IMPATIENT: Final = 0.5
_PATIENCE_S: Final = 600.0


def with_interactive(requests: Sequence[JobRequest], seed: int, share: float) -> list[JobRequest]:
    """Return the same jobs, a share of them interactive. Of these half are rejected where they do
    not start within ten minutes, but those that others depend on.

    Each job draws for itself, so that a longer workload begins with the same jobs. Arrays are not.
    """
    draws = stream(seed, Stream.INTERACTIVE).random((len(requests), 2)).tolist()
    awaited = {each.of for request in requests for each in request.depends_on}
    return [
        _interactive(request, patience, is_awaited=request.index in awaited)
        if draw < share and not request.array
        else request
        for request, (draw, patience) in zip(requests, draws, strict=True)
    ]


def _interactive(request: JobRequest, patience: float, *, is_awaited: bool) -> JobRequest:
    waits = is_awaited or patience >= _IMPATIENT
    return replace(request, is_interactive=True, starts_within_s=0.0 if waits else _PATIENCE_S)
