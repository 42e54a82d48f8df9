"""One job's whole story: every event and decision of it, from the topics."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from coplace.v1.jobs_pb2 import JobFinished, JobOutcome, JobStarted, JobSubmitted
from coplace.v1.placement_pb2 import (
    VERDICT_ACTION,
    VERDICT_START,
    ActionKind,
    PlacementDecided,
    Verdict,
)
from coplace.v1.pricing_pb2 import ChargeMade

from cli.kafka_topics import CHARGES, JOBS, KafkaTopics
from cli.notes import utc
from cli.output import Row
from coplace_client.errors import UnusableError
from coplace_client.millicores import cores_text, millicores
from shared.catalogue.event import Event
from shared.domain.hostlist import count_names
from shared.streams.on_kafka.deployment import Deployment

_DECISIONS: Final = "placement.decisions"
_JOULES_A_KWH: Final = 3.6e6
_RANKS: Final[Mapping[type, int]] = {JobSubmitted: 0, PlacementDecided: 1}


class UnpublishedJobError(UnusableError):
    """No topic has anything of the job."""


def events(deployment: Deployment, job_id: str) -> list[Event]:
    """Return all events of a job that topics still have, by its time. Raises
    UnpublishedJobError."""
    topics = KafkaTopics(deployment)
    found = [
        each for topic in (JOBS, _DECISIONS, CHARGES) for each in topics.read_key(topic, job_id)
    ]
    if not found:
        raise UnpublishedJobError(
            f"no topic has an event of {job_id[:80]!r}: `coplace jobs` lists those that placement "
            "knows, `coplace dlq list` what was refused"
        )
    return in_order(found)


def in_order(found: Iterable[Event]) -> list[Event]:
    """Return events of a job by time; of one time what is submitted and decided comes first."""
    return sorted(found, key=lambda event: (event.time_us, _RANKS.get(type(event.payload), 2)))


def rows(found: Iterable[Event]) -> Iterator[Row]:
    """Yield a row for each event: when, what, and what matters of it."""
    for event in found:
        what, details = describe_event(event.payload)
        yield {
            "time": utc(event.time_us),
            "attempt": getattr(event.payload, "attempt", 0) or None,
            "what": what,
            "details": details,
            "source": event.source,
        }


def describe_event(payload: Any) -> tuple[str, str]:
    """Return what a message says, in words, and what matters of it."""
    describe = _DETAILS.get(type(payload))
    if describe is not None:
        return describe(payload)
    words = re.findall(r"[A-Z][a-z]+", payload.DESCRIPTOR.name.removeprefix("Job"))
    return " ".join(words).lower(), getattr(payload, "reason", "")


def _submitted(message: JobSubmitted) -> tuple[str, str]:
    cores = cores_text(millicores(message.cores_per_unit, message.millicores_per_unit))
    units = f"{message.nodes} units of {cores} cores"
    asked = units if message.cores_per_unit else f"{message.nodes} nodes"
    asked += f" in {len(message.parts)} parts" if message.parts else ""
    limit = f"{message.walltime_s / 3600:.2f} h on {message.reference_cluster}"
    return "submitted", f"{asked}, {limit}, {message.user} ({message.account})"


def _decided(message: PlacementDecided) -> tuple[str, str]:
    if message.verdict == VERDICT_START:
        where = f"{len(message.node_indices)} nodes of {message.cluster}"
        return "to start", f"on {where} at {message.freq_ghz:g} GHz, grant {message.grant}"
    if message.verdict == VERDICT_ACTION:
        kind = ActionKind.Name(message.action.kind).removeprefix("ACTION_KIND_")
        asked = f"asked to {kind.lower().replace('_', ' ')}"
        return asked, message.reason
    verdict = Verdict.Name(message.verdict).removeprefix("VERDICT_").lower()
    return "waits" if verdict == "queued" else verdict, message.reason


def _started(message: JobStarted) -> tuple[str, str]:
    clock = f" at {message.freq_ghz:g} GHz" if message.freq_ghz else ""
    nodes = sum(map(count_names, message.nodes))
    return "started", f"on {nodes} nodes of {message.cluster}{clock}"


def _finished(message: JobFinished) -> tuple[str, str]:
    outcome = JobOutcome.Name(message.outcome).removeprefix("JOB_OUTCOME_")
    ran_h = (message.ended_at_us - (message.started_at_us or message.ended_at_us)) / 3.6e9
    energy = f", {message.energy_j / _JOULES_A_KWH:.2f} kWh" if message.energy_j else ""
    return outcome.lower().replace("_", " "), f"after {ran_h:.2f} h{energy}"


def _charged(message: ChargeMade) -> tuple[str, str]:
    again = f" (revision {message.revision})" if message.revision > 1 else ""
    full = f"in full {message.state_of_practice_su}"
    return "charged", f"{message.price_su} SU to {message.account}, {full}{again}"


_DETAILS: Final[Mapping[type, Callable[[Any], tuple[str, str]]]] = {
    JobSubmitted: _submitted,
    PlacementDecided: _decided,
    JobStarted: _started,
    JobFinished: _finished,
    ChargeMade: _charged,
}
