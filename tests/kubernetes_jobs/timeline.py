"""When each step of Jobs was taken, as others wrote it down: the API server in its audit log, Kafka
beside each record, the nodes."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from coplace.v1.jobs_pb2 import JobSubmitted
from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from lab.benchmarks.kubernetes.cluster import call
from services.kubernetes.model.records import PLURAL
from shared.kubernetes.objects import mapping_of, time_us
from shared.streams.on_kafka.clients import Reader
from tests.kubernetes_jobs.installed import ADAPTER, JOBS, InstalledAdapter

_STEPS: Final = (
    *("recorded", "taken", "submitted", "decided"),
    *("claiming", "claimed", "starting", "started", "begun"),
)
_SHARES: Final = (0.1, 0.5, 0.9, 1.0)


class AdapterRequest(NamedTuple):
    """One request of the adapter at home, as the API server wrote it down."""

    kind: str
    """Verb and resource."""
    name: str
    body: Mapping[str, Any]
    asked_s: float
    done_s: float
    is_done: bool


def requests_of(installed: InstalledAdapter) -> Iterator[AdapterRequest]:
    """Yield what the adapter asked for at home."""
    for each in installed.clusters["alpha"].requests():
        if each["user"]["username"] == ADAPTER:
            about = each.get("objectRef") or {"resource": each["requestURI"].split("?")[0]}
            yield AdapterRequest(
                f"{each['verb']} {about['resource']}",
                about.get("name", ""),
                mapping_of(each.get("requestObject")),
                time_us(each["requestReceivedTimestamp"]) / 1e6,
                time_us(each["stageTimestamp"]) / 1e6,
                each["responseStatus"]["code"] < 300,
            )


def table(installed: InstalledAdapter, asked_s: Mapping[str, float]) -> str:
    """Return, in words, how long after their creation Jobs that ran at home had taken each step."""
    taken: dict[str, dict[str, float]] = defaultdict(dict)
    for step, name, at_s in _all_steps(installed):
        taken[step].setdefault(name, at_s)
    lines = []
    for step in _STEPS:
        at = {name: at_s for name, at_s in taken[step].items() if name in asked_s}
        after = sorted(at_s - asked_s[name] for name, at_s in at.items())
        lines.append(f"    {step:<10}{_quantiles(after)}")
    return "\n".join(lines)


def _quantiles(ordered: Sequence[float]) -> str:
    if not ordered:
        return "by no Job"
    found = (ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in _SHARES)
    words = " ".join(f"{each:6.2f}" for each in found)
    return f"{words} s (p10, p50, p90, most) of {len(ordered)}"


def _all_steps(installed: InstalledAdapter) -> Iterator[tuple[str, str, float]]:
    """Yield each step with the name of its Job, and when it was taken, s since 1970."""
    yield from _asked(installed)
    yield from _published(installed)
    for name, at_s in installed.kubelets["alpha"].begun_s.items():
        yield "begun", name, at_s


def _asked(installed: InstalledAdapter) -> Iterator[tuple[str, str, float]]:
    jobs = asyncio.run(call(installed.clusters["alpha"], "GET", JOBS))["items"]
    names = {each["metadata"]["uid"]: each["metadata"]["name"] for each in jobs}
    worded: dict[str, AdapterRequest] = {}
    for each in requests_of(installed):
        if not each.is_done:
            continue
        name = names.get(each.name, each.name)
        if each.kind == f"create {PLURAL}":
            yield "recorded", name, each.done_s
        elif each.kind == f"patch {PLURAL}":
            worded[name] = each
        elif each.kind == "patch jobs":
            suspend = mapping_of(each.body.get("spec")).get("suspend")
            if suspend:
                yield "taken", name, each.done_s
            elif suspend is False and name in worded:
                # The last word on its record before it was let run is the claim.
                yield "claiming", name, worded[name].asked_s
                yield "claimed", name, worded[name].done_s
                yield "starting", name, each.asked_s
                yield "started", name, each.done_s


def _published(installed: InstalledAdapter) -> Iterator[tuple[str, str, float]]:
    own = installed.deployment
    topics = (*own.topics.partitions("jobs.events"), *own.topics.partitions("placement.decisions"))
    with Reader(own, topics) as reader:
        for record in reader.to_end():
            payload: Any = own.codec.decode(record, of_any_count=True).payload
            if isinstance(payload, JobSubmitted):
                yield "submitted", payload.job_id.split("/")[3], record.written_ms / 1e3
            elif isinstance(payload, PlacementDecided) and payload.verdict == VERDICT_START:
                yield "decided", payload.job_id.split("/")[3], record.written_ms / 1e3
