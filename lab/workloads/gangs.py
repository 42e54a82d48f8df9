"""Users who submit heterogeneous jobs, gangs of two parts, in place of jobs of equal nodes."""

from collections.abc import Sequence
from dataclasses import replace

from lab.workloads.request import JobRequest
from lab.workloads.streams import Stream, stream
from shared.domain.parts import JobPart


def with_gangs(requests: Sequence[JobRequest], seed: int, share: float) -> list[JobRequest]:
    """Return the same jobs, a share of those of several whole nodes as gangs: one node that leads,
    which alone needs the feature that the job asks for, and the others with two units on each.

    Each job draws for itself, so that a longer workload begins with the same jobs.
    """
    draws = stream(seed, Stream.GANGS).random(len(requests)).tolist()
    return [
        _gang(request) if draw < share and _is_of_nodes(request) else request
        for request, draw in zip(requests, draws, strict=True)
    ]


def _is_of_nodes(request: JobRequest) -> bool:
    has_more = request.cores_per_unit or request.memory_gib_per_unit or request.resources_per_unit
    return request.nodes > 1 and not (has_more or request.shareable)


def _gang(request: JobRequest) -> JobRequest:
    leads = JobPart(1, features=request.features)
    follow = JobPart(2 * (request.nodes - 1), units_per_node=2)
    return replace(request, features="", parts=(leads, follow))
