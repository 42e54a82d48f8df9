"""What the auditor demands where meters are silent, of a run that is short enough to be read."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER

from services.placement.app import stages
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.in_memory.log import InMemoryLog
from tests.chaos.audit import power
from tests.chaos.audit.evidence import Evidence
from tests.chaos.journal import Journal
from tests.chaos.mutants import silent_meters_count_as_predicted
from tests.chaos.world import RULES, World
from tests.unit.services.placement.test_app import CODEC, TOPICS, append, close, decisions
from tests.unit.shared.placement import region
from tests.unit.shared.placement.metered_region import IDLE_W, NAMEPLATE_W, PREDICTED_W, read

SECOND_US = 1_000_000
# Of two nodes: between what is predicted and what they can draw.
BETWEEN_W = PREDICTED_W + NAMEPLATE_W
# As its operator declares it, or as it follows.
DECLARED: Final = {"nameplate_power_w": NAMEPLATE_W}
DERIVED: Final = {"nameplate_power_w": 0.0, "processors_tdp_w": NAMEPLATE_W - IDLE_W}


def evidence_of_silence(cap_w: float, nameplate: Mapping[str, Any] = DECLARED) -> Evidence:
    """A job starts on both nodes of a cluster, whose meters are read once and never again; another
    one comes when it has ended."""
    log = InMemoryLog()
    runtime = EmbeddedRuntime(log, stages(Settings(rounds=RoundSource.CLOCK), RULES), TOPICS)
    cluster = region.declared("p1", 2, **nameplate)
    cap = region.capped(POWER_SCOPE_CLUSTER, "p1", (0, cap_w))
    known = region.signature(0, "p1", power_w=PREDICTED_W)
    append(log, [cluster, region.power(), known, cap, region.submitted("a", nodes=2)])
    for minute in range(1, 8):
        close(runtime, region.T0_US + minute * 60 * SECOND_US)
        if minute == 1:
            append(log, [region.started(decisions(log)["a"]), read(61, "p1-[0000-0001]")])
        if minute == 5:
            ended_us = region.T0_US + 301 * SECOND_US
            append(log, [region.finished("a", ended_us, grant=1, cluster="p1")])
            append(log, [region.submitted("b", ended_us, nodes=2)])
    world = SimpleNamespace(log=log, codec=CODEC, journal=Journal())
    return Evidence.of(cast("World", world))


def found(evidence: Evidence) -> list[str]:
    """What is violated."""
    starts, runs = power.no_start_breaks_a_cap, power.what_exceeds_a_cap_is_asked_to_draw_less
    return [*starts(evidence), *runs(evidence)]


@pytest.mark.parametrize("nameplate", [DECLARED, DERIVED])
@pytest.mark.parametrize("cap_w", [2 * PREDICTED_W + 1, BETWEEN_W, 2 * NAMEPLATE_W])
def test_who_counts_by_nameplate_where_meters_are_silent_violates_nothing(
    cap_w: float, nameplate: Mapping[str, float]
) -> None:
    assert found(evidence_of_silence(cap_w, nameplate)) == []


@pytest.mark.parametrize("nameplate", [DECLARED, DERIVED])
def test_a_start_and_a_run_that_count_as_predicted_there_are_found(
    nameplate: Mapping[str, float],
) -> None:
    with silent_meters_count_as_predicted():
        start, run = found(evidence_of_silence(BETWEEN_W, nameplate))
    assert "b started in round 4: 999.998 W of 833.0 W of p1" in start
    assert "round 3: a draw 799.998 W beside 200.0 W of idle nodes" in run
