"""Users who say that their jobs are something else than they are."""

from collections.abc import Sequence
from dataclasses import replace

from lab.workloads.request import JobRequest
from lab.workloads.streams import Stream, stream
from lab.workloads.table1 import APPS


def mislabel(requests: Sequence[JobRequest], seed: int, share: float) -> list[JobRequest]:
    """Return the same jobs, a share of them under the name of another application of Table 1."""
    draws = stream(seed, Stream.MISLABELLED).random((len(requests), 2)).tolist()
    return [
        _under_another_name(request, choice) if draw < share else request
        for request, (draw, choice) in zip(requests, draws, strict=True)
    ]


def _under_another_name(request: JobRequest, choice: float) -> JobRequest:
    others = [app_id for app_id in APPS if app_id != request.app_id]
    return replace(request, app_id=others[int(choice * len(others))], runs=request.app_id)
