"""What the auditor demands of rounds that are read again, of a run that is short enough to be read:
whose ends were not believed then, as a clock was ahead, and are now."""

from types import SimpleNamespace
from typing import cast

from coplace.v1.placement_pb2 import VERDICT_START, PlacementDecided

from services.placement.app import stages
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.restoring.unit_repair import replay
from tests.chaos.audit.evidence import Evidence
from tests.chaos.audit.starts import no_core_is_given_twice
from tests.chaos.journal import Journal, Run
from tests.chaos.mutants import what_was_told_is_decided_again
from tests.chaos.restoring import mend, mend_clock
from tests.chaos.world import RULES, World
from tests.support.operated_log import OperatedLog
from tests.unit.services.placement.test_app import CODEC, TOPICS, append, close
from tests.unit.shared.placement.region import T0_US, declared, power, submitted

STAGES = stages(Settings(rounds=RoundSource.CLOCK), RULES)
SEQUENCER, PLACEMENT = STAGES
SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US
NODES = 4


def evidence_of_a_replay() -> Evidence:
    """The clock that ends round 0, with one job in it, is ahead: placement ends it with the next
    one, and starts the job of that, which goes first. When the hour has come its state is lost."""
    log = OperatedLog()
    region = EmbeddedRuntime(log, STAGES, TOPICS)
    append(log, [declared("p1", NODES), power(), submitted("low", T0_US + 1, nodes=NODES)])
    region.run_until_quiet(T0_US)
    region.close_rounds(SEQUENCER.name, T0_US + HOUR_US)
    region.run_until_quiet(T0_US)
    mend_clock(log, TOPICS, SEQUENCER, lambda _: True, T0_US + SECOND_US)
    append(log, [submitted("high", T0_US + 2, nodes=NODES, priority=9)])
    close(EmbeddedRuntime(log, STAGES, TOPICS), T0_US + 2 * SECOND_US)
    log.recreate(PLACEMENT.changelog)
    mend(log, CODEC, STAGES, PLACEMENT, replay)
    close(EmbeddedRuntime(log, STAGES, TOPICS), T0_US + HOUR_US)
    world = SimpleNamespace(log=log, codec=CODEC, journal=obeyed(log))
    return Evidence.of(cast("World", world))


def obeyed(log: OperatedLog) -> Journal:
    """Of a resource manager that starts at once whatever is decided."""
    journal = Journal(cores={"p1": 1})
    records = [r for p in TOPICS.partitions("placement.decisions") for r in log.read(p)]
    for decided in (CODEC.decode(record).payload for record in records):
        if isinstance(decided, PlacementDecided) and decided.verdict == VERDICT_START:
            nodes = tuple(f"p1-{node:04d}" for node in decided.node_indices)
            whole = nodes, (1,) * len(nodes), 1
            run = Run(decided.job_id, decided.attempt, "p1", *whole, decided.decided_at_us)
            journal.runs.append(run)
    return journal


def test_in_a_round_that_was_reported_starts_who_did_then() -> None:
    evidence = evidence_of_a_replay()
    assert [run.job_id for run in evidence.world.journal.runs] == ["high"]
    assert list(no_core_is_given_twice(evidence)) == []


def test_one_that_starts_beside_is_found() -> None:
    with what_was_told_is_decided_again():
        found = list(no_core_is_given_twice(evidence_of_a_replay()))
    assert len(found) == NODES
    assert "('high', 1), ('low', 1) at once" in found[0]
