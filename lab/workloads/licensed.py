"""Jobs that need licences: of a cluster, of its site, or of the region."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from lab.workloads.request import JobRequest
from lab.workloads.streams import Stream, stream

# By scope, the name and how many there are: jobs need fewer.
OF_CLUSTER: Final = "debugger", 4
OF_SITE: Final = "mesher", 6
OF_REGION: Final = "solver", 8
_NAMES: Final = tuple(name for name, _ in (OF_CLUSTER, OF_SITE, OF_REGION))
_MOST: Final = 4


def with_licences(requests: Sequence[JobRequest], seed: int, share: float) -> list[JobRequest]:
    """Return the same jobs, a share of which need some licences of one name.

    Each job draws for itself, so that a longer workload begins with the same jobs.
    """
    draws = stream(seed, Stream.LICENSED).random((len(requests), 3)).tolist()
    return [
        replace(request, licences=_drawn(which, many)) if draw < share else request
        for request, (draw, which, many) in zip(requests, draws, strict=True)
    ]


def _drawn(which: float, many: float) -> tuple[tuple[str, int], ...]:
    return ((_NAMES[int(which * len(_NAMES))], 1 + int(many * _MOST)),)
