"""Which jobs there are (`coplace jobs`, `queue`), and what is asked of them (`cancel`, `hold`,
`prioritize`, `release`, `requeue`, `suspend`, `unsuspend`)."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Final

import typer
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import (
    JobCancelled,
    JobHeld,
    JobPrioritized,
    JobReleased,
    JobRequeueAsked,
    JobResumed,
    JobSuspended,
)
from coplace.v1.placement_service_pb2 import (
    JobStanding,
    ListedJob,
    ListJobsRequest,
)

from cli import completion, why
from cli.answers import write_answer
from cli.asking import Ingest, Placement
from cli.known import require_known
from cli.listing import ask_jobs, listed_jobs, require_cluster
from cli.notes import note, utc
from cli.outcomes import order, tell
from cli.output import Output, OutputName, Row, write
from cli.speaking import Reason, Source
from cli.times import clock_us
from cli.waiting import WAIT_S, Wait
from coplace_client.bounds import PRIORITY
from coplace_client.calls import UnansweredError
from coplace_client.errors import UnusableError
from coplace_client.facts import fact

_PREFIX: Final = "JOB_STANDING_"
_STANDINGS: Final = [name.removeprefix(_PREFIX).lower() for name in JobStanding.keys()[1:]]
# Of so many jobs users and accounts are known.
_MOST_ASKED: Final = 10_000
_WAITS: Final = (JobStanding.JOB_STANDING_WAITING, JobStanding.JOB_STANDING_RESERVED)

_HOLDS_NODES: Final = (
    JobStanding.JOB_STANDING_DECIDED,
    JobStanding.JOB_STANDING_RUNNING,
    JobStanding.JOB_STANDING_SUSPENDED,
)

JobId = Annotated[
    str,
    typer.Argument(metavar="JOB", help="As it was submitted.", autocompletion=completion.jobs),
]
Limit = Annotated[int, typer.Option(min=1, max=100_000, help="How many at most.")]


Request = (
    JobCancelled
    | JobHeld
    | JobReleased
    | JobPrioritized
    | JobSuspended
    | JobResumed
    | JobRequeueAsked
)


_ASKED: Final[Mapping[type[Request], str]] = {
    JobCancelled: "cancelled",
    JobHeld: "held",
    JobReleased: "released",
    JobPrioritized: "given the new priority",
    JobSuspended: "suspended",
    JobResumed: "resumed",
    JobRequeueAsked: "requeued",
}


class NoRunError(UnusableError):
    """What is asked is about a run, and the job has none."""


class OverError(UnusableError):
    """What is asked is about a job that can start, and this one starts no more."""


class UnknownJobStateError(UnusableError):
    """Jobs are never in such a state."""


def jobs(
    job_id: Annotated[
        str,
        typer.Argument(
            metavar="[JOB]",
            help="One job: every event and decision of it.",
            autocompletion=completion.jobs,
        ),
    ] = "",
    user: Annotated[str, typer.Option(help="Only of this user.")] = "",
    account: Annotated[str, typer.Option(help="Only of this account.")] = "",
    cluster: Annotated[
        str,
        typer.Option(
            help="Only those that run on it, or wait for it.", autocompletion=completion.clusters
        ),
    ] = "",
    standing: Annotated[
        list[str] | None, typer.Option(help=f"One of {', '.join(_STANDINGS)}; again for more.")
    ] = None,
    limit: Limit = 50,
    output: OutputName = Output.TABLE,
    placement: Placement = "127.0.0.1:50053",
) -> None:
    """List the jobs that wait and run, and those that ended not long ago; of one job, its whole
    story, from the topics."""
    if job_id:
        _write_story(job_id, output)
        return
    wanted = [_standing(name) for name in standing or ()]
    request = ListJobsRequest(user=user, account=account, cluster=cluster, standings=wanted)
    columns = ("job", "is", "user", "cluster", "nodes", "GHz")
    _list(request, columns, limit, output, placement)


def _write_story(job_id: str, output: Output) -> None:
    from cli import story
    from shared.process.settings import settings
    from shared.streams.on_kafka.deployment import Deployment

    found = story.events(Deployment.from_settings(settings()), job_id)
    write([*story.rows(found)], ("time", "what", "details"), output)


def queue(
    cluster: Annotated[
        str,
        typer.Argument(help="As `coplace clusters` names it.", autocompletion=completion.clusters),
    ],
    limit: Limit = 50,
    output: OutputName = Output.TABLE,
    placement: Placement = "127.0.0.1:50053",
) -> None:
    """List the jobs that wait for a cluster, in the order in which they are tried."""
    request = ListJobsRequest(cluster=cluster, standings=_WAITS, in_queue=True)
    _list(request, ("place", "job", "user", "start at the latest"), limit, output, placement)


def cancel(
    job_id: JobId,
    reason: Reason = "",
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Cancel a job. If it runs, its resource manager ends it."""
    message = JobCancelled(job_id=job_id, reason=reason, cancelled_at_us=clock_us())
    _ask_of(message, placement, ingest, source, wait)


def hold(
    job_id: JobId,
    reason: Reason = "",
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Hold a job: it starts only after `coplace release`, and keeps its place in the queue."""
    message = JobHeld(job_id=job_id, reason=reason, held_at_us=clock_us())
    _ask_of(message, placement, ingest, source, wait)


def requeue(
    job_id: JobId,
    reason: Reason = "",
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Put a job at the end of the queue. If it runs, it is ended and starts again later."""
    attempt = why.ask(placement, job_id).attempt
    message = JobRequeueAsked(job_id=job_id, attempt=attempt, reason=reason, asked_at_us=clock_us())
    _ask_of(message, placement, ingest, source, wait)


def suspend(
    job_id: JobId,
    reason: Reason = "",
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Suspend a running job on its nodes until it is resumed."""
    message = JobSuspended(job_id=job_id, reason=reason, suspended_at_us=clock_us())
    _ask_of(message, placement, ingest, source, wait)


def unsuspend(
    job_id: JobId,
    reason: Annotated[str, typer.Option(help="Why: it is recorded.")] = "",
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Let a suspended job run on as soon as the caps of power allow it."""
    message = JobResumed(job_id=job_id, reason=reason, resumed_at_us=clock_us())
    _ask_of(message, placement, ingest, source, wait)


def release(
    job_id: JobId,
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Let a held job start."""
    message = JobReleased(job_id=job_id, released_at_us=clock_us())
    _ask_of(message, placement, ingest, source, wait)


def prioritize(
    job_id: JobId,
    priority: Annotated[
        int,
        typer.Argument(min=round(PRIORITY.least), max=round(PRIORITY.most), help="Higher first."),
    ],
    reason: Reason = "",
    placement: Placement = "127.0.0.1:50053",
    ingest: Ingest = "127.0.0.1:50051",
    source: Source = "operator",
    wait: Wait = WAIT_S,
) -> None:
    """Give a job another priority; one that waits goes to its new place in the queue."""
    message = JobPrioritized(
        job_id=job_id, priority=priority, reason=reason, prioritized_at_us=clock_us()
    )
    _ask_of(message, placement, ingest, source, wait)


def _list(
    request: ListJobsRequest,
    columns: tuple[str, ...],
    limit: int,
    output: Output,
    placement: str,
) -> None:
    answer = ask_jobs(placement, request, limit)
    if not answer.jobs:
        # A user may not see all clusters and jobs: the empty answer is all there is.
        with suppress(UnansweredError):
            _require_subjects(request, placement)
    write_answer(answer, [row(job) for job in answer.jobs], columns, output)
    if more := answer.in_all - len(answer.jobs):
        note([f"{more:,} more: --limit {answer.in_all} lists all"])


def _require_subjects(request: ListJobsRequest, placement: str) -> None:
    """Raise UnknownNameError where no job is listed since there is no such cluster, user or
    account."""
    if request.cluster:
        require_cluster(placement, request.cluster)
    if request.user or request.account:
        every, _ = listed_jobs(placement, ListJobsRequest(), _MOST_ASKED)
        for kind, name in (("user", request.user), ("account", request.account)):
            if name:
                require_known(f"{kind} with a job", name, {getattr(job, kind) for job in every})


def row(job: ListedJob) -> Row:
    """Return the row of a job."""
    held, promised = job.allocation, job.reservation
    return {
        "place": job.place or None,
        "job": job.job_id,
        "attempt": job.attempt,
        "is": JobStanding.Name(job.standing).removeprefix(_PREFIX).lower(),
        "user": job.user,
        "account": job.account,
        "application": job.app_id,
        "priority": job.priority,
        "submitted": _at(job.submitted_at_us),
        "cluster": held.cluster or None,
        "nodes": held.nodes or None,
        "GHz": held.freq_ghz or None,
        "since": _at(held.since_us),
        "ends by": _at(held.ends_by_us),
        "promised on": promised.cluster or None,
        "start at the latest": _at(promised.start_at_us),
        "why": job.reason,
    }


def _at(time_us: int) -> str | None:
    """In UTC; None for a time that is not known."""
    return utc(time_us) if time_us else None


def _standing(name: str) -> JobStanding.ValueType:
    if name not in _STANDINGS:
        raise UnknownJobStateError(f"`--standing` must be one of {', '.join(_STANDINGS)}: {name!r}")
    return JobStanding.Value(f"{_PREFIX}{name.upper()}")


def request_event(message: Request, source: str, now_us: int) -> Envelope:
    """Return the event that asks something of a job."""
    return fact(source, message, f"{message.job_id}/{now_us}", now_us)


def _ask_of(message: Request, placement: str, ingest: str, source: str, wait_s: float) -> None:
    """Publish what is asked of a job that placement knows; print the job's state before, and after.

    Raises NoRunError where it is about a run that there is not, and as `order` does.
    """
    before = why.ask(placement, message.job_id)
    if isinstance(message, JobSuspended | JobResumed) and before.standing not in _HOLDS_NODES:
        raise NoRunError(f"{message.job_id} has no run: it {why.state(before)}")
    if isinstance(message, JobRequeueAsked) and before.standing in why.OVER:
        raise OverError(f"{message.job_id} {why.state(before)}: submit it anew")
    if isinstance(message, JobCancelled) and before.standing == JobStanding.JOB_STANDING_FINISHED:
        raise OverError(f"{message.job_id} {why.state(before)}: there is nothing to cancel")
    done = order(ingest, request_event(message, source, clock_us()), wait_s)
    what = _ASKED[type(message)]
    typer.echo(f"to be {what}: {message.job_id}, which {why.state(before)}")
    tell(done)
    after = why.ask(placement, message.job_id)
    typer.echo(f"{message.job_id} now {why.state(after)}")
    if isinstance(message, JobReleased) and after.standing == JobStanding.JOB_STANDING_HELD:
        typer.echo(f"why: {after.reason}")
