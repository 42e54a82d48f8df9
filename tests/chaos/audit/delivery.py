"""What was acknowledged is neither lost nor doubled on its way to placement."""

from collections import Counter
from collections.abc import Iterable, Iterator

from coplace.v1.energy_pb2 import CoefficientsDeclared

from services.placement.app import SEQUENCED
from tests.chaos.audit.evidence import Evidence, events_of

SEQUENCER = "placement.sequencer"
# Faults after which stages may refuse to work.
UPHEAVALS = (
    "jump_clocks",
    "lose_a_changelog",
    "put_back_a_changelog",
    "put_back_the_inputs",
    "put_back_the_ledger",
    "refill_an_input",
    "move_positions",
)


def nothing_acknowledged_is_lost(evidence: Evidence) -> Iterator[str]:
    """Each acknowledged fact is in placement's input, or was refused with a reason."""
    arrived = set(evidence.inputs)
    for event_id in _sequenced(evidence):
        if event_id not in arrived and (SEQUENCER, event_id) not in evidence.refused:
            yield f"{event_id} was acknowledged and never reached placement"


def nothing_is_made_of_nothing(evidence: Evidence) -> Iterator[str]:
    """Placement's input holds no fact more often than it came, or again since an operator had the
    sequencer read again. Hostile ones of two topics may have one id."""
    known, again = _sequenced(evidence), evidence.world.journal.mended[SEQUENCER]
    times = _ids(evidence, SEQUENCED)
    for event_id, count in Counter(evidence.inputs).items():
        if event_id in known and count > times[event_id] * (1 + again):
            yield f"{event_id} came {times[event_id]} times and reached placement {count} times"


def nothing_sensible_is_isolated(evidence: Evidence) -> Iterator[str]:
    """Only what somebody hostile sent may make a stage fail."""
    for (stage, event_id), reason in evidence.quarantined.items():
        if event_id.startswith(("chaos/", "site/")):
            yield f"{stage} quarantined {event_id}: {reason}"
    for decided in evidence.decisions:
        if "deciding on it failed" in decided.reason:
            yield f"{decided.job_id} is held: {decided.reason}"


def nothing_is_refused_that_nobody_replaced(evidence: Evidence) -> Iterator[str]:
    """Crashes, zombies and hostile records never part state, positions and topics."""
    journal = evidence.world.journal
    if not any(journal.faults[name] for name in UPHEAVALS):
        yield from journal.refusals


def _sequenced(evidence: Evidence) -> Counter[str]:
    """What ingest took."""
    return _ids(evidence, ("jobs.events", "commands"))


def _ids(evidence: Evidence, topics: Iterable[str]) -> Counter[str]:
    """But for what the learner publishes."""
    world = evidence.world
    return Counter(
        event.id
        for topic in topics
        for event in events_of(world.log, world.codec, topic)
        if not isinstance(event.payload, CoefficientsDeclared)
    )
