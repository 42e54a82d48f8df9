"""What a shell completes: the topics, and the jobs and clusters that placement knows.

Whoever presses the key waits for it, and an error can be shown nowhere: without an answer soon
nothing is completed.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from coplace.v1.placement_service_pb2 import ListedCluster

_WITHIN_S: Final = 1.0
_MOST_JOBS: Final = 1_000
# The options of commands that say where placement is.
_ADDRESSES: Final = ("placement", "address")
_USUAL_ADDRESS: Final = "127.0.0.1:50053"


def topics() -> list[str]:
    """Return the names of all topics."""
    from shared.catalogue.topics import load_topics

    return sorted(load_topics())


def jobs(ctx: typer.Context) -> list[str]:
    """Return the jobs that wait, run or were rejected: commands on a job take these."""
    return _answered(ctx, _jobs_at)


def clusters(ctx: typer.Context) -> list[str]:
    """Return the declared clusters."""
    return _answered(ctx, lambda placement: (each.name for each in _clusters_at(placement)))


def cap_subjects(ctx: typer.Context) -> list[str]:
    """Return what a cap of power can limit: clusters, sites, and the region."""
    return _answered(ctx, _capped_at)


def _answered(ctx: typer.Context, ask: Callable[[str], Iterable[str]]) -> list[str]:
    from cli.installation.installation import reachable
    from coplace_client.errors import UnusableError

    try:
        with reachable():
            return list(ask(_placement(ctx)))
    except UnusableError:  # as `asking` raises it for commands, which print it
        return []


def _placement(ctx: typer.Context) -> str:
    """As the command would find it: an option goes before the environment."""
    for name in _ADDRESSES:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            return str(ctx.params[name])
    return os.environ.get("COPLACE_PLACEMENT_ADDRESS", _USUAL_ADDRESS)


def _jobs_at(placement: str) -> Iterator[str]:
    from coplace.v1.placement_service_pb2 import (
        JOB_STANDING_CANCELLED,
        JOB_STANDING_FINISHED,
        JobStanding,
        ListJobsRequest,
    )

    from cli.listing import listed_jobs

    over = (JOB_STANDING_FINISHED, JOB_STANDING_CANCELLED)
    wanted = [standing for standing in JobStanding.values()[1:] if standing not in over]
    request = ListJobsRequest(standings=wanted)
    found, _ = listed_jobs(placement, request, _MOST_JOBS, within_s=_WITHIN_S)
    return (job.job_id for job in found)


def _clusters_at(placement: str) -> "Iterable[ListedCluster]":
    from cli.listing import listed_clusters

    return listed_clusters(placement, within_s=_WITHIN_S)


def _capped_at(placement: str) -> Iterator[str]:
    found = _clusters_at(placement)
    yield from sorted({name for each in found for name in (each.name, each.site)})
    yield "region"


ClusterName = Annotated[
    str, typer.Argument(metavar="CLUSTER", help="As it was declared.", autocompletion=clusters)
]
OneCluster = Annotated[
    str | None,
    typer.Argument(
        metavar="[CLUSTER]", help="One cluster; all by default.", autocompletion=clusters
    ),
]
