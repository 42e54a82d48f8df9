"""Both stages over the log in memory, whose data somebody replaces: the operator repairs them as
`coplace restore` and `coplace clock mend` do."""

from collections.abc import Callable

import pytest
from coplace.v1.placement_pb2 import VERDICT_REJECTED, VERDICT_START

from services.placement.app import stages
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.in_memory.embedded import EmbeddedRuntime
from shared.streams.restoring.unit_repair import RepairedState, UnitAtRest, accept, replay
from shared.streams.stages.consistency import InconsistentError
from tests.chaos.restoring import mend, mend_clock
from tests.support.operated_log import OperatedLog
from tests.unit.services.placement.test_app import CODEC, TOPICS, append, close, decisions
from tests.unit.shared.placement.region import T0_US, declared, models, submitted

STAGES = stages(Settings(rounds=RoundSource.CLOCK))
SEQUENCER, PLACEMENT = STAGES
SECOND_US = 1_000_000
HOUR_US = 3600 * SECOND_US


def started(log: OperatedLog) -> EmbeddedRuntime:
    """The one process of both stages, in place of the one before."""
    return EmbeddedRuntime(log, STAGES, TOPICS)


def mend_clocks(log: OperatedLog, now_us: int) -> None:
    """Of a region whose states are ahead of the clock."""
    for stage in STAGES:
        mend_clock(log, TOPICS, stage, lambda _: True, now_us)


def test_who_was_rejected_under_a_clock_that_jumped_stays_so_when_the_state_is_lost() -> None:
    """The end of its round lies in the future when it is read again, and is not believed."""
    log = OperatedLog()
    append(log, [*models(nodes=4), submitted("a", T0_US + 1, nodes=5)])
    close(started(log), T0_US + HOUR_US)
    assert decisions(log)["a"].verdict == VERDICT_REJECTED
    mend_clocks(log, T0_US + 10 * SECOND_US)
    log.recreate(PLACEMENT.changelog)
    mend(log, CODEC, STAGES, PLACEMENT, replay)
    region = started(log)
    append(log, [declared("p1", 8, T0_US + 11 * SECOND_US), submitted("b", T0_US + 11 * SECOND_US)])
    for seconds in (12, 13):
        close(region, T0_US + seconds * SECOND_US)
    decided = decisions(log)
    assert (decided["a"].verdict, decided["a"].round) == (VERDICT_REJECTED, 0)
    assert decided["b"].round > 0


Mending = tuple[bool, bool, Callable[[UnitAtRest], RepairedState]]
MENDINGS: dict[str, Mending] = {
    "placement has its state": (False, False, accept),
    "placement has lost its state": (True, False, replay),
    "placement has an older state": (False, True, accept),
    "placement begins anew": (False, False, replay),
}


@pytest.mark.parametrize("sequencer_is_lost", [False, True])
@pytest.mark.parametrize(
    ("is_lost", "is_older", "how"), list(MENDINGS.values()), ids=list(MENDINGS)
)
def test_inputs_that_were_restored_older_are_refused_and_repaired_without_giving_a_round_twice(
    is_lost: bool,
    is_older: bool,
    how: Callable[[UnitAtRest], RepairedState],
    sequencer_is_lost: bool,
) -> None:
    """Where the sequencer has lost its state too, only placement, or what it published, knows how
    many rounds there were."""
    log = OperatedLog()
    append(log, models(nodes=64))
    rounds(log, 0, 3)
    inputs, state = log.backup("placement.inputs"), log.backup(PLACEMENT.changelog)
    rounds(log, 3, 10)
    told = decisions(log)
    log.put_back("placement.inputs", inputs)
    if not sequencer_is_lost:
        with pytest.raises(InconsistentError, match=r"placement.inputs/0 ends at \d+, "):
            rounds(log, 10, 11)
    if is_lost:
        log.recreate(PLACEMENT.changelog)
    if is_older:
        log.put_back(PLACEMENT.changelog, state)
    if sequencer_is_lost:
        log.recreate(SEQUENCER.changelog)
        with pytest.raises(InconsistentError, match="repair placement first"):
            mend(log, CODEC, STAGES, SEQUENCER, replay)
    mend(log, CODEC, STAGES, PLACEMENT, how)
    mend(log, CODEC, STAGES, SEQUENCER, replay if sequencer_is_lost else accept)
    rounds(log, 11, 14)
    decided = decisions(log)
    assert {job: decided[job] for job in told} == told
    assert [(decided[f"j{n}"].verdict, decided[f"j{n}"].round) for n in (11, 12, 13)] == [
        (VERDICT_START, number) for number in (10, 11, 12)
    ]


def rounds(log: OperatedLog, first: int, end: int) -> None:
    """One job comes in each, in a process that ends after it."""
    region = started(log)
    for number in range(first, end):
        append(log, [submitted(f"j{number}", T0_US + number * SECOND_US + 1)])
        close(region, T0_US + (number + 1) * SECOND_US)
