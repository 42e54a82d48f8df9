"""Pricing by declared tariffs, and what accounts have left."""

from decimal import Decimal
from typing import Any

import pytest
from coplace.v1.accounts_pb2 import (
    STANDING_FUNDED,
    STANDING_REFUSED,
    STANDING_WARNED,
    WHEN_EMPTY_REFUSE,
    WHEN_EMPTY_RUN,
    WHEN_EMPTY_WARN,
    AllocationDeclared,
    PeriodClosed,
    WhenEmpty,
)
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import (
    JobFinished,
    JobRequeued,
    Part,
    RunInterval,
)
from coplace.v1.prediction_pb2 import RunPowerPredicted
from coplace.v1.pricing_pb2 import (
    CHARGE_REASON_ALONE,
    ENERGY_REASON_IMPLAUSIBLE,
    ENERGY_REASON_PREDICTED,
    ENERGY_REASON_UNSPECIFIED,
    ChargeMade,
    ChargeReason,
    RepriceAsked,
)
from coplace.v1.tariffs_pb2 import (
    PAYER_OPERATOR,
    PRICE_MODEL_FAIR,
    PRICE_MODEL_RATE_FUNCTION,
    PRICE_MODEL_STATE_OF_PRACTICE,
    RatePoint,
    TariffRate,
)
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from services.pricing.attribution import lost_energy_mj
from services.pricing.explanation import explain_charge
from services.pricing.processor import SOURCE, PriceRule
from services.pricing.restoring import recall_outputs
from shared.catalogue.event import Event
from shared.pricing.charge import audit
from shared.streams.stages.stage import AlreadyAppliedError, EarlyError, OvertakenError
from tests.support.messaging import START_US as T0_US
from tests.unit.services.changelog import fold
from tests.unit.services.pricing import support
from tests.unit.services.pricing.support import (
    HOUR_US,
    JOB,
    Driver,
    shutters,
    started,
    submitted,
    tariff,
)


class Ledger(Driver):
    """Rounds of an hour; each begins a new life."""

    def __init__(self) -> None:
        super().__init__(PriceRule(Decimal("0.0001"), grace_us=0, remember_us=100 * HOUR_US))
        self._rounds = 0

    def hear(self, *facts: Message) -> None:
        """Facts, each once, and the end of their round."""
        self.take(*facts)
        self._rounds += 1
        self.end_round(self._rounds, T0_US + self._rounds * HOUR_US)
        self.restart()


def finished(attempt: int = 1, start_us: int = T0_US, **changes: Any) -> JobFinished:
    """An hour on 20 cores."""
    return support.finished(attempt, start_us, **({"nodes": 2, "cores_per_node": 10} | changes))


def reprice(charge: ChargeMade, tariff: str = "a", at_us: int = T0_US) -> RepriceAsked:
    return RepriceAsked(charge=charge, tariff=tariff, tariff_version=1, asked_at_us=at_us)


def priced(*payloads: Message) -> ChargeMade:
    ledger = Ledger()
    ledger.hear(submitted(nodes=2), *payloads)
    return ledger.charges[-1]


def test_a_charge_names_its_tariff_and_what_of_it_holds() -> None:
    rates = [
        TariffRate(resource="core", su="2", qos="high"),
        TariffRate(resource="core", su="3", partition="fat"),
        TariffRate(resource="core", su="1"),
        TariffRate(resource="gpu", su="40", node_model="v100"),
        TariffRate(resource="gib", su="0.25"),
        TariffRate(resource="energy", su="0.5", cluster="c"),
    ]
    charge = priced(
        tariff(rates=rates),
        finished(
            partition="fat",
            node_model="v100",
            resources={"gpu": 2, "licence": 1},
            memory_gib=64.0,
            energy_j=7.2e6,
        ),
    )
    assert (charge.tariff, charge.tariff_version, charge.model) == ("t", 1, PRICE_MODEL_FAIR)
    assert [(line.resource, line.quantity, line.su) for line in charge.lines] == [
        ("core", "72000", "3"),
        ("gib", "230400.0", "0.25"),
        ("gpu", "7200", "40"),
        ("energy", "7200000.000000", "0.5"),
    ]
    assert charge.price_su == "157.000000"  # 60 + 16 + 80 + 1


def declared(nameplate_w: float) -> ClusterDeclared:
    """Four nodes of ten cores that draw so much at most; 0 says nothing of it."""
    return ClusterDeclared(
        cluster="c",
        site="s",
        node_model="m",
        nodes=4,
        cores_per_node=10,
        pstates_ghz=[2.0],
        idle_power_w=100.0,
        peak_bandwidth_gbps=100.0,
        nameplate_power_w=nameplate_w,
    )


@pytest.mark.parametrize("nameplate_w", [700.0, 0.0])
@pytest.mark.parametrize("energy_j", [0.0, 2.52e6, 5.04e6, 5.05e6, 1e12, 9.9e15])
def test_no_more_energy_is_charged_than_nodes_can_draw(nameplate_w: float, energy_j: float) -> None:
    """An hour on two nodes of 700 W are 5.04 MJ; where nobody declares what a node draws, no node
    draws more than 100 kW."""
    ledger = Ledger()
    cluster = declared(nameplate_w=nameplate_w)
    rates = [TariffRate(resource="core", su="1"), TariffRate(resource="energy", su="0.25")]
    by_time = tariff(rates=rates[:1], name="a", from_us=T0_US + 1_000 * HOUR_US)
    run = finished(cluster="c", energy_j=energy_j)
    ledger.hear(cluster, tariff(rates=rates), by_time, submitted(nodes=2))
    ledger.hear(run)
    [charge] = ledger.charges
    is_absurd = energy_j > 2 * 3_600.0 * (nameplate_w or 100_000.0)
    assert (charge.energy_reason == ENERGY_REASON_IMPLAUSIBLE) == is_absurd
    assert charge.most_node_power_w == ((nameplate_w or 100_000.0) if is_absurd else 0.0)
    billed = [float(line.quantity) for line in charge.lines if line.resource == "energy"]
    assert billed == ([energy_j] if energy_j and not is_absurd else [])
    assert charge.reason == CHARGE_REASON_ALONE
    assert charge.finished.energy_j == energy_j
    audit(charge)
    again = explain_charge(charge, run, {}, [tariff(rates=rates)])
    assert again.is_reproduced
    assert lost_energy_mj(charge) == 0
    ledger.hear(reprice(charge, "a"))
    ledger.hear(reprice(ledger.charges[-1], "t"))
    assert ledger.charges[-1].energy_reason == charge.energy_reason
    assert ledger.charges[-1].price_su == charge.price_su


@pytest.mark.parametrize("energy_j", [0.0, 1.0, 2.52e6, 9.9e15])
@pytest.mark.parametrize("comes", ["before", "in its round", "after the charge"])
def test_what_was_predicted_is_charged_where_energy_is_not_believed(
    energy_j: float, comes: str
) -> None:
    """An hour on two nodes of which 300 W each were predicted: 2.16 MJ."""
    ledger = Ledger()
    rates = [TariffRate(resource="core", su="1"), TariffRate(resource="energy", su="0.25")]
    run = finished(cluster="c", energy_j=energy_j)
    predicted = RunPowerPredicted(job_id=JOB, attempt=1, cluster="c", node_power_w=300.0)
    early, late = ([predicted], []) if comes == "before" else ([], [predicted])
    ledger.hear(tariff(rates=rates), submitted(nodes=2), *early)
    ledger.hear(run, *(late if comes == "in its round" else []))
    if comes == "after the charge":
        ledger.hear(*late)
    charge = ledger.charges[-1]
    assert charge.revision == (2 if comes == "after the charge" else 1)
    assert charge.energy_reason == ENERGY_REASON_PREDICTED
    assert (charge.finished.energy_j, charge.predicted_energy_j) == (energy_j, 2.16e6)
    assert [line.quantity for line in charge.lines if line.resource == "energy"] == [
        "2160000.000000"
    ]
    assert charge.price_su == "20.150000"
    assert explain_charge(charge, run, {}, [tariff(rates=rates)]).is_reproduced
    by_time = tariff(rates=rates[:1], name="a", from_us=T0_US + 1_000 * HOUR_US)
    ledger.hear(by_time)
    ledger.hear(reprice(charge, "a"))
    assert ledger.charges[-1].energy_reason == ENERGY_REASON_UNSPECIFIED
    with pytest.raises(AlreadyAppliedError):
        ledger.take(predicted)


def test_a_price_is_reproduced_where_no_more_was_predicted_than_cores_idle_at() -> None:
    ledger, run = Ledger(), finished(cluster="c", energy_j=1e12)
    rates = [TariffRate(resource="core", su="0"), TariffRate(resource="energy", su="1")]
    by = tariff(rates=rates, idle_w_per_core="50")
    predicted = RunPowerPredicted(job_id=JOB, attempt=1, cluster="c", node_power_w=300.0)
    ledger.hear(by, submitted(nodes=2))
    ledger.hear(run, predicted)
    [charge] = ledger.charges
    assert (charge.energy_reason, list(charge.lines)) == (ENERGY_REASON_PREDICTED, [])
    assert explain_charge(charge, run, {}, [by]).is_reproduced


def test_no_more_is_charged_as_predicted_than_nodes_can_draw_and_nothing_is_kept() -> None:
    ledger = Ledger()
    with pytest.raises(EarlyError, match="never submitted"):
        ledger.take(RunPowerPredicted(job_id=JOB, attempt=1, cluster="c", node_power_w=300.0))
    cluster = declared(nameplate_w=200.0)
    rates = [TariffRate(resource="core", su="0"), TariffRate(resource="energy", su="1")]
    ledger.hear(cluster, tariff(rates=rates), submitted(nodes=2))
    ledger.hear(RunPowerPredicted(job_id=JOB, attempt=1, cluster="c", node_power_w=300.0))
    ledger.hear(finished(cluster="c", energy_j=1e12))
    assert ledger.charges[-1].predicted_energy_j == 2 * 200.0 * 3_600
    for _ in range(102):
        ledger.hear()
    assert not [key for key in ledger.state if key.startswith(("predicted-power", "attempt"))]


@pytest.mark.parametrize(
    ("model", "points", "price_su"),
    [
        (PRICE_MODEL_STATE_OF_PRACTICE, [], "20.000000"),
        (PRICE_MODEL_FAIR, [], "12.800000"),
        (PRICE_MODEL_RATE_FUNCTION, [("0", "0.5"), ("0.5", "0.5"), ("1", "1")], "12.800000"),
        (PRICE_MODEL_RATE_FUNCTION, [("0", "0"), ("0.8", "0.9"), ("1", "1")], "14.400000"),
    ],
)
def test_a_model_says_what_degradation_takes_off(
    model: Any, points: list[tuple[str, str]], price_su: str
) -> None:
    function = [RatePoint(solo_share=share, factor=factor) for share, factor in points]
    charge = priced(tariff(model=model, points=function), shutters(), finished())
    assert charge.state_of_practice_su == "20.000000"
    assert charge.price_su == price_su  # with T_solo / T = 0.8


def test_hours_of_the_day_weight_the_run_but_not_while_it_was_suspended() -> None:
    factors = ["1"] * 24
    factors[0], factors[1] = "0.5", "2"
    half = finished(start_us=T0_US + HOUR_US // 2)
    assert priced(tariff(hour_factors=factors), half).price_su == "25.000000"
    stood = finished(start_us=T0_US + HOUR_US // 2)
    stood.intervals.add(began_at_us=stood.started_at_us, freq_ghz=2.0)
    stood.intervals.add(began_at_us=T0_US + HOUR_US, freq_ghz=0.0)
    assert priced(tariff(hour_factors=factors), stood).price_su == "5.000000"


def test_idle_energy_may_be_the_operators() -> None:
    rates = [TariffRate(resource="core", su="0"), TariffRate(resource="energy", su="1")]
    run = finished(energy_j=3.6e6)
    assert priced(tariff(rates=rates), run).price_su == "1.000000"
    assert priced(tariff(rates=rates, idle_w_per_core="10"), run).price_su == "0.800000"
    assert priced(tariff(rates=rates, idle_w_per_core="90"), run).price_su == "0.000000"


def test_the_tariff_that_holds_when_the_job_starts_counts_and_of_several_the_last_declared() -> (
    None
):
    ledger = Ledger()
    ledger.hear(
        tariff("old", 1, "1", until_us=T0_US + 2 * HOUR_US),
        tariff("new", 2, "5", from_us=T0_US + 2 * HOUR_US),
        tariff("better", 3, "2", until_us=T0_US + HOUR_US),
        submitted(nodes=2),
        JobRequeued(job_id=JOB, cluster="c", attempt=2),
        JobRequeued(job_id=JOB, cluster="c", attempt=3),
        finished(1),
        finished(2, T0_US + HOUR_US),
        finished(3, T0_US + 2 * HOUR_US),
    )
    assert [each.tariff for each in ledger.charges] == ["better", "old", "new"]


def test_a_version_of_a_tariff_never_changes() -> None:
    ledger = Ledger()
    ledger.hear(tariff())
    with pytest.raises(AlreadyAppliedError):
        ledger.hear(tariff())
    with pytest.raises(RejectedError, match="never changes"):
        ledger.hear(tariff(core="2"))


def test_a_tariff_from_a_clock_ahead_is_replaced_by_one_that_is_declared_later() -> None:
    ledger = Ledger()
    ledger.hear(tariff("ahead", core="7", declared_at_us=T0_US + 20 * HOUR_US))
    with pytest.raises(AlreadyAppliedError):  # a copy of it stays one
        ledger.hear(tariff("ahead", core="7", declared_at_us=T0_US + 20 * HOUR_US))
    ledger.hear(tariff("right", core="2", declared_at_us=T0_US + 2 * HOUR_US))
    ledger.hear(submitted(nodes=2), finished())
    assert ledger.charges[-1].tariff == "right"


def test_an_allocation_from_a_clock_ahead_is_replaced_by_one_that_is_declared_later() -> None:
    ledger = Ledger()
    far, soon = T0_US + 20 * HOUR_US, T0_US + 2 * HOUR_US
    given: dict[str, Any] = {"account": "physics", "when_empty": WHEN_EMPTY_REFUSE}
    ledger.hear(AllocationDeclared(**given, allocated_su="0", declared_at_us=far))
    assert ledger.standings[-1].standing == STANDING_REFUSED
    ledger.hear(AllocationDeclared(**given, allocated_su="5", declared_at_us=soon))
    assert ledger.standings[-1].standing == STANDING_FUNDED
    with pytest.raises(OvertakenError, match="newer: declare it again"):
        ledger.hear(AllocationDeclared(**given, allocated_su="0", declared_at_us=T0_US))


BEARS: dict[str, Any] = {"node_failure": PAYER_OPERATOR, "requeue": PAYER_OPERATOR}
SUSPENDED = RunInterval(began_at_us=T0_US, freq_ghz=0.0)


@pytest.mark.parametrize(
    ("facts", "reason", "price_su", "in_full_su"),
    [
        ([finished()], "ALONE", "20", "20"),
        ([shutters(), finished()], "MEASURED", "12.8", "20"),
        ([shutters(ipc_after=2.0), finished()], "NO_USABLE_SHUTTER", "20", "20"),
        ([shutters(), shutters(1.0, "c"), finished()], "MEASURED", "12.8", "20"),
        ([finished(started_at_us=0)], "NEVER_STARTED", "0", "0"),
        ([finished(ended_at_us=T0_US)], "NO_RUN_TIME", "0", "0"),
        ([finished(intervals=[SUSPENDED])], "NO_RUN_TIME", "0", "0"),
        ([finished(ended_at_us=T0_US + 87_660 * HOUR_US)], "IMPLAUSIBLE", "0", "0"),
        ([finished(failed_nodes=["c-0001"])], "NODE_FAILED", "0", "20"),
        ([finished(), JobRequeued(job_id=JOB, cluster="c", attempt=2)], "REQUEUED", "0", "20"),
    ],
)
def test_each_price_has_a_reason(
    facts: list[Message], reason: str, price_su: str, in_full_su: str
) -> None:
    for order in (facts, facts[::-1]):
        charge = priced(tariff(**BEARS), *order)
        assert ChargeReason.Name(charge.reason) == f"CHARGE_REASON_{reason}"
        assert Decimal(charge.price_su) == Decimal(price_su)
        assert Decimal(charge.state_of_practice_su) == Decimal(in_full_su)


def test_what_would_cost_more_than_any_job_costs_nothing() -> None:
    charge = priced(tariff(core="1000000"), finished(nodes=10_000, cores_per_node=1_000))
    assert ChargeReason.Name(charge.reason) == "CHARGE_REASON_IMPLAUSIBLE"
    assert (charge.price_su, charge.state_of_practice_su) == ("0.000000", "0.000000")


def test_a_run_that_is_requeued_after_its_charge_is_charged_anew_where_the_operator_bears_it() -> (
    None
):
    for policy, prices_su in (({}, ["20.000000"]), (BEARS, ["20.000000", "0.000000"])):
        ledger = Ledger()
        ledger.hear(tariff(**policy), submitted(nodes=2), finished())
        ledger.hear(JobRequeued(job_id=JOB, cluster="c", attempt=2))
        assert [each.price_su for each in ledger.charges] == prices_su


def test_reprocessing_makes_the_next_revision_by_another_tariff_and_late_shutters_keep_to_it() -> (
    None
):
    ledger = Ledger()
    ledger.hear(tariff("a"), tariff("b", 2, "7"), submitted(nodes=2), finished())
    first = ledger.charges[0]
    assert first.tariff == "b"
    asked = reprice(first, at_us=T0_US + 9)
    ledger.hear(asked)
    with pytest.raises(AlreadyAppliedError):
        ledger.hear(asked)
    ledger.hear(shutters())
    assert [(c.revision, c.tariff, c.price_su) for c in ledger.charges] == [
        (1, "b", "140.000000"),
        (2, "a", "20.000000"),
        (3, "a", "12.800000"),
    ]


def test_what_is_forgotten_is_reprocessed_from_the_charges_alone() -> None:
    before = priced(tariff("b", 2, "7"), shutters(), finished())
    ledger = Ledger()
    ledger.hear(tariff("a"), reprice(before))
    [again] = ledger.charges
    assert (again.revision, again.price_su) == (2, "12.800000")
    assert again.evidence == before.evidence
    with pytest.raises(RejectedError, match="was not declared"):
        ledger.hear(reprice(again, "x"))


def test_a_lost_state_that_knows_the_charges_alone_can_be_reprocessed_and_charged_again() -> None:
    before = priced(tariff("b", 2, "7"), shutters(), finished())
    ledger = Ledger()
    fold(ledger.state, recall_outputs({}, [Event("c1", SOURCE, T0_US, JOB, before)]))
    ledger.restart()
    ledger.hear(tariff("a"), reprice(before))
    ledger.hear(submitted(2, nodes=2))
    assert [(c.revision, c.price_su) for c in ledger.charges] == [(2, "12.800000")]
    with pytest.raises(AlreadyAppliedError):
        ledger.hear(finished())
    ledger.hear(shutters())
    assert [(c.revision, c.price_su) for c in ledger.charges[1:]] == [(3, "12.800000")]


def test_what_is_charged_for_a_closed_period_is_booked_when_it_closed() -> None:
    ledger = Ledger()
    ledger.hear(submitted(nodes=2), finished())
    closed_us = T0_US + 24 * HOUR_US
    ledger.hear(PeriodClosed(until_us=closed_us, closed_at_us=closed_us), shutters())
    booked = [each.booked_at_us for each in ledger.charges]
    assert booked == [T0_US + HOUR_US, closed_us]


def allocation(su: str, when_empty: Any, at_us: int = T0_US) -> AllocationDeclared:
    return AllocationDeclared(
        account="physics", allocated_su=su, when_empty=when_empty, declared_at_us=at_us
    )


def reserved(when_empty: WhenEmpty.ValueType) -> Ledger:
    """All of an account is reserved for a run: 2 nodes x 10 cores x 2 h."""
    ledger, cluster = Ledger(), ClusterDeclared(cluster="c", cores_per_node=10)
    ledger.hear(tariff(), cluster, allocation("40", when_empty), submitted(nodes=2))
    ledger.hear(started())
    return ledger


def test_an_attempt_that_never_says_how_it_ended_reserves_nothing_any_more() -> None:
    ledger = reserved(WHEN_EMPTY_REFUSE)
    ledger.hear(JobRequeued(job_id=JOB, cluster="c", attempt=2))
    standings = [each.standing for each in ledger.standings]
    assert standings == [STANDING_FUNDED, STANDING_REFUSED, STANDING_FUNDED]


def test_the_reservation_for_a_gang_counts_the_resources_of_its_parts() -> None:
    """2 nodes x 10 cores x 2 h, and 3 GPUs for 2 h at 10 SU each."""
    ledger, cluster = Ledger(), ClusterDeclared(cluster="c", cores_per_node=10)
    rates = [TariffRate(resource="core", su="1"), TariffRate(resource="gpu", su="10")]
    parts = [Part(units=1), Part(units=1, resources_per_unit={"gpu": 3})]
    gang = submitted(nodes=2, parts=parts, shareable=False)
    ledger.hear(tariff(rates=rates), cluster, allocation("100", WHEN_EMPTY_REFUSE), gang)
    ledger.hear(started())
    assert ledger.standings[-1].reserved_su == "100.000000"


def test_a_quarter_of_a_core_is_reserved_and_charged_as_a_quarter() -> None:
    """2 h at 1 SU a core and hour are reserved; it runs for 1 h."""
    ledger = Ledger()
    job = submitted(nodes=1, cores_per_unit=1, millicores_per_unit=250)
    ledger.hear(tariff(), allocation("100", WHEN_EMPTY_REFUSE), job, started())
    assert ledger.standings[-1].reserved_su == "0.500000"
    ledger.hear(finished(nodes=1, cores_per_node=1, cores=1, millicores=250), shutters())
    [charge] = ledger.charges
    assert (charge.cores, charge.millicores, charge.state_of_practice_su) == (1, 250, "0.250000")
    assert [(line.resource, line.quantity) for line in charge.lines] == [("core", "900.00")]
    audit(charge)


@pytest.mark.parametrize(
    ("when_empty", "standing"),
    [(WHEN_EMPTY_REFUSE, STANDING_REFUSED), (WHEN_EMPTY_WARN, STANDING_WARNED)],
)
def test_an_account_is_empty_while_its_runs_are_reserved_for(
    when_empty: WhenEmpty.ValueType, standing: int
) -> None:
    ledger = reserved(when_empty)
    ledger.hear(finished())
    assert [(s.standing, s.charged_su, s.reserved_su) for s in ledger.standings] == [
        (STANDING_FUNDED, "0.000000", "0.000000"),
        (standing, "0.000000", "40.000000"),
        (STANDING_FUNDED, "20.000000", "0.000000"),
    ]
    ledger.hear(allocation("20", WHEN_EMPTY_RUN, T0_US + 1))
    assert ledger.standings[-1].standing == STANDING_FUNDED
    ledger.hear(allocation("20", when_empty, T0_US + 2))
    ledger.hear(shutters())
    assert [(s.standing, s.charged_su) for s in ledger.standings[3:]] == [
        (standing, "20.000000"),
        (STANDING_FUNDED, "12.800000"),
    ]
    assert [s.number for s in ledger.standings] == [1, 2, 3, 4, 5]


def test_a_state_older_than_the_charges_learns_from_it_what_accounts_are_charged() -> None:
    ledger = Ledger()
    ledger.hear(allocation("0.5", WHEN_EMPTY_REFUSE), tariff())
    old = dict(ledger.state)
    ledger.hear(submitted(nodes=2), finished(), shutters())
    told = [Event(f"c{n}", SOURCE, T0_US, JOB, c) for n, c in enumerate(ledger.charges)]
    told += [Event(f"s{n}", SOURCE, T0_US, "physics", s) for n, s in enumerate(ledger.standings)]
    ledger.state = dict(old)
    fold(ledger.state, recall_outputs(old, told))
    ledger.restart()
    before = len(ledger.standings)
    ledger.hear(submitted(nodes=2), finished(), shutters())
    revisions = [(c.revision, c.price_su) for c in ledger.charges]
    assert revisions == [(1, "12.800000"), (2, "12.800000")]
    assert ledger.standings[before:] == []
    assert recall_outputs(ledger.state, told[:0]).keys() == {f"attempt|{JOB}\n1", "account|physics"}
