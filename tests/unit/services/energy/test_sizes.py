"""What energy's stages write of the longest signatures fits into records."""

from typing import Any

import pytest
from coplace.v1.energy_pb2 import AppIdMismatch, MetricDeviation

from coplace_client.errors import RejectedError
from services.energy.advice import AdvicePolicy, AdviceRule
from services.energy.processor.advisor import Advisor
from services.energy.processor.appdb import AppDB
from services.energy.processor.learner import Learner
from services.energy.processor.row import AGREEING_JOBS, AppDBRow
from shared.catalogue.event import Event, Publish
from shared.domain.cluster import MOST_PSTATES
from shared.streams.stages.stage import Processor, Round
from shared.streams.state.rows import RowCodec
from tests.support.sizes import DOUBLED, require_carried
from tests.unit.services.changelog import fold
from tests.unit.services.energy.support import measured

# An id of 4,096 bytes is the longest that a record may carry.
LONG_IDS = [f"{number:04d}" + '"' * 4_092 for number in range(700)]
NAMES: Any = {"app_id": DOUBLED, "node_model": DOUBLED, "tpi_scale": DOUBLED}
CLOCKS = [1 + step / 100 for step in range(MOST_PSTATES)]


def carried(processor: Processor, number: int, *events: Event) -> int:
    """The largest record of a round, in which state is written before its end too."""
    for event in events:
        list(processor.handle(event))
    before = require_carried(processor, ())
    published = list(processor.end_round(Round(number, number * 30_000_000)))
    return max(before, require_carried(processor, published))


@pytest.mark.parametrize("processor", [AppDB({}), Learner({})])
def test_a_round_of_many_long_signatures_fits(processor: Processor) -> None:
    runs = [measured(one, 1, job_id=DOUBLED, traceparent="t", **NAMES) for one in LONG_IDS]
    assert carried(processor, 0, *runs) < 1_000_000


@pytest.mark.parametrize(("processor", "kernel"), [(AppDB({}), False), (Learner({}), True)])
def test_an_application_at_every_p_state_fits(processor: Processor, kernel: bool) -> None:
    runs = [
        measured(one, 1, freq_ghz=ghz, kernel=kernel, **NAMES)
        for one, ghz in zip(LONG_IDS, CLOCKS, strict=False)
    ]
    carried(processor, 0, *runs)


def test_a_row_that_is_doubted_at_every_p_state_fits() -> None:
    appdb, ids = AppDB({}), iter(LONG_IDS)
    known = [measured(next(ids), 1, freq_ghz=ghz, **NAMES) for ghz in CLOCKS]
    carried(appdb, 0, *known)
    doubts = [
        measured(next(ids), 2, freq_ghz=ghz, job_id=f"{job}{DOUBLED}"[:256], cpi=9.0, **NAMES)
        for job in range(AGREEING_JOBS - 1)
        for ghz in CLOCKS
    ]
    assert carried(appdb, 1, *doubts) < 1_000_000


def test_a_metric_that_no_signature_has_is_refused() -> None:
    advisor = Advisor({}, AdvicePolicy(AdviceRule.MIN_ENERGY), 30.0, 86_400.0)
    found = AppIdMismatch(metrics=[MetricDeviation(metric="x", differs=True)])
    with pytest.raises(RejectedError, match="metrics: must be of power_w, cpi"):
        list(advisor.handle(Event("m", "energy.appdb", 1, "k", found)))


def test_what_was_kept_of_a_row_is_restored_with_its_rivals_and_waiting_runs() -> None:
    state: dict[str, bytes] = {}

    def handled(*events: Event) -> AppDB:
        """By a process that lives on from the state."""
        appdb = AppDB(dict(state))
        for event in events:
            list(appdb.handle(event))
        fold(state, appdb.changes())
        return appdb

    def ended(number: int) -> list[Publish]:
        appdb = handled()
        published = list(appdb.end_round(Round(number, 0)))
        fold(state, appdb.changes())
        return published

    handled(measured("a", 1))
    ended(0)
    for number in range(AGREEING_JOBS - 1):
        handled(measured(f"d{number}", 2, job_id=f"j{number}", cpi=9.0))
        ended(number + 1)
    assert sorted(key.split("|")[0] for key in state) == ["rival", "row"]
    handled(measured("last", 3, job_id="j9", cpi=9.0))
    [update] = ended(9)
    assert [key.split("|")[0] for key in state] == ["row"]
    [row] = map(RowCodec(AppDBRow, without=("rivals",)).decode, state.values())
    assert row.seen[-1] == "last"
    assert update.event.payload.DESCRIPTOR.name == "SignatureUpdated"
