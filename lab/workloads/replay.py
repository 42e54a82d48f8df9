"""Real logs as workloads of the emulator."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from coplace_client.bounds import DELAY_S
from coplace_client.checks import require_count
from coplace_client.errors import UnusableError
from lab.workloads.request import JobRequest, RequestedDependency
from lab.workloads.streams import shareable
from lab.workloads.swf import Skip, SwfRecord, read_swf
from lab.workloads.table1 import APPS, PLATINUM_8168, PublishedNodeModel, profile
from shared.domain.job import Condition


@dataclass(frozen=True, slots=True)
class SwfWorkload:
    """A log's jobs in the order of their submission.

    `max_nodes` is the size of the log's machine: a processor of the log is a node of the emulated
    clusters, and a cluster of this size holds every job. `skipped` counts what of the whole log
    was left out.
    """

    requests: tuple[JobRequest, ...]
    max_nodes: int
    skipped: Mapping[Skip, int]


def replay(
    path: Path,
    jobs: int | None = None,
    *,
    seed: int = 0,
    reference_cluster: str = PLATINUM_8168.partition,
    node_model: PublishedNodeModel = PLATINUM_8168,
) -> SwfWorkload:
    """Read the first `jobs` jobs of a log that ran (None: all); the first is submitted at 0 s.

    The log's run times are taken as times on `reference_cluster` of `node_model` at its nominal
    P-state. A job whose line names a preceding job starts its think time after that has ended, not
    before. Logs do not say which application ran: a hash of the executable, or else of the
    user, picks one of the eight, so that what belongs together stays together. `max_nodes`
    is MaxProcs, else MaxNodes, else the largest job. Raises OSError when the file cannot be
    read and UnusableError when no job is left.
    """
    if jobs is not None:
        require_count("jobs", jobs)
    log = read_swf(path)
    kept = log.playable(log.machine_procs)
    records = sorted(kept.records(jobs), key=lambda record: record.submit_s)
    if not records:
        problem = f"{path} holds no job to replay (left out: {dict(kept.skipped)})"
        raise UnusableError(f"{problem}: is it an SWF log?")
    shared = shareable(seed, len(records))
    requests = tuple(
        replace(
            _request(i, record, records[0].submit_s, reference_cluster, node_model, bool(shares)),
            depends_on=after,
        )
        for i, (record, shares, after) in enumerate(
            zip(records, shared, _preceding(records), strict=True)
        )
    )
    largest = max(request.nodes for request in requests)
    return SwfWorkload(requests, log.machine_procs or largest, kept.skipped)


def _preceding(records: Sequence[SwfRecord]) -> Iterator[tuple[RequestedDependency, ...]]:
    """Yield of each job what its line says of a job before it that is replayed too."""
    index_of: dict[int, int] = {}
    for index, record in enumerate(records):
        before = index_of.get(record.preceding_job)
        think_s = min(record.think_s, DELAY_S.most)
        think_s = think_s if DELAY_S.has(think_s) else 0.0
        yield (
            () if before is None else (RequestedDependency(before, Condition.AFTER_ANY, think_s),)
        )
        index_of.setdefault(record.job_number, index)


def _procs(record: SwfRecord) -> int:
    """What was asked for, else what was given."""
    return record.requested_procs if record.requested_procs > 0 else record.allocated_procs


def _request(
    index: int,
    record: SwfRecord,
    first_submit_s: float,
    reference_cluster: str,
    node_model: PublishedNodeModel,
    shares: bool,
) -> JobRequest:
    app_id = app_of(record)
    return JobRequest(
        index=index,
        app_id=app_id,
        user=_named("user", record.user_id),
        account=_named("group", record.group_id),
        nodes=_procs(record),
        shareable=shares,
        repetitions=record.run_s / profile(app_id, node_model.name).time_s,
        walltime_s=record.requested_s if record.requested_s > 0 else record.run_s,
        submit_s=record.submit_s - first_submit_s,
        reference_cluster=reference_cluster,
    )


def _named(kind: str, number: int) -> str:
    return f"{kind}{number}" if number >= 0 else f"{kind}-unknown"


def app_of(record: SwfRecord) -> str:
    """Return the application that replaces the record's unknown one."""
    known = record.executable > 0
    key = f"executable {record.executable}" if known else f"user {record.user_id}"
    digest = hashlib.sha256(key.encode()).digest()
    return tuple(APPS)[int.from_bytes(digest) % len(APPS)]
