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
    AccountStanding,
    AllocationDeclared,
    PeriodClosed,
    WhenEmpty,
)
from coplace.v1.control_pb2 import ClusterDeclared
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_COMPLETED,
    JobFinished,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    RunInterval,
)
from coplace.v1.pricing_pb2 import ChargeMade, ChargeReason, RepriceAsked
from coplace.v1.tariffs_pb2 import (
    PAYER_OPERATOR,
    PRICE_MODEL_FAIR,
    PRICE_MODEL_RATE_FUNCTION,
    PRICE_MODEL_STATE_OF_PRACTICE,
    RatePoint,
    TariffDeclared,
    TariffRate,
)
from coplace.v1.telemetry_pb2 import Shutter, ShuttersMeasured
from google.protobuf.message import Message

from coplace_client.errors import RejectedError
from services.pricing.charge import audit
from services.pricing.processor import SOURCE, PriceRule, PricingProcessor
from services.pricing.restoring import recalled
from shared.catalogue.contents.check import check_contents
from shared.catalogue.event import Event
from shared.streams.stages.stage import AlreadyAppliedError, Round

T0_US = 1_767_225_600_000_000  # a midnight
HOUR_US = 3_600_000_000
JOB = "s/c/1/0"


class Ledger:
    """A processor, rounds of an hour, and what it told; each round begins a new life."""

    def __init__(self) -> None:
        self.state: dict[str, bytes] = {}
        self.charges: list[ChargeMade] = []
        self.standings: list[AccountStanding] = []
        self._rounds = 0
        self._restart()

    def _restart(self) -> None:
        rule = PriceRule(Decimal("0.0001"), grace_us=0, remember_us=100 * HOUR_US)
        self.processor = PricingProcessor(rule, dict(self.state))

    def take(self, *payloads: Message) -> None:
        """Facts, each once, and the end of their round."""
        for payload in payloads:
            event = Event(f"e{payload}", "test", T0_US, JOB, payload)
            self._hear([p.event.payload for p in self.processor.handle(event)])
        self._rounds += 1
        ended = Round(self._rounds, T0_US + self._rounds * HOUR_US)
        self._hear([p.event.payload for p in self.processor.end_round(ended)])
        for key, value in self.processor.changes().items():
            if value is None:
                self.state.pop(key, None)
            else:
                self.state[key] = value
        self._restart()

    def _hear(self, told: list[Message]) -> None:
        for payload in told:
            if isinstance(payload, ChargeMade):
                audit(payload)
                self.charges.append(payload)
            if isinstance(payload, AccountStanding):
                self.standings.append(payload)


def tariff(name: str = "t", version: int = 1, core: str = "1", **others: Any) -> TariffDeclared:
    others.setdefault("rates", [TariffRate(resource="core", su=core)])
    others.setdefault("model", PRICE_MODEL_FAIR)
    others.setdefault("from_us", T0_US)
    return TariffDeclared(name=name, version=version, declared_at_us=T0_US + version, **others)


def submitted(attempt: int = 1) -> JobSubmitted:
    return JobSubmitted(
        job_id=JOB, attempt=attempt, user="ada", account="physics", nodes=2, walltime_s=7200
    )


def finished(attempt: int = 1, start_us: int = T0_US, **others: Any) -> JobFinished:
    fields: dict[str, Any] = {
        "job_id": JOB,
        "attempt": attempt,
        "user": "ada",
        "account": "physics",
        "cluster": "c",
        "nodes": 2,
        "cores_per_node": 10,
        "submitted_at_us": T0_US,
        "started_at_us": start_us,
        "ended_at_us": start_us + HOUR_US,
    }
    return JobFinished(**{**fields, **others})


def shutters(
    ipc_during: float, beside: str = "b", ipc_after: float = 1.0, until_us: int = T0_US + HOUR_US
) -> ShuttersMeasured:
    return ShuttersMeasured(
        job_id=JOB,
        attempt=1,
        co_runner_job_id=beside,
        began_at_us=T0_US,
        ended_at_us=until_us,
        shutters=[Shutter(ipc_before=1.0, ipc_during=ipc_during, ipc_after=ipc_after)],
    )


def priced(*payloads: Message) -> ChargeMade:
    ledger = Ledger()
    ledger.take(submitted(), *payloads)
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
    charge = priced(tariff(model=model, points=function), shutters(1.25), finished())
    assert charge.state_of_practice_su == "20.000000"
    assert charge.price_su == price_su  # with T_solo / T = 0.8


def test_hours_of_the_day_weigh_the_run_but_not_while_it_was_suspended() -> None:
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
    ledger.take(
        tariff("old", 1, "1", until_us=T0_US + 2 * HOUR_US),
        tariff("new", 2, "5", from_us=T0_US + 2 * HOUR_US),
        tariff("better", 3, "2", until_us=T0_US + HOUR_US),
        submitted(),
        JobRequeued(job_id=JOB, attempt=2),
        JobRequeued(job_id=JOB, attempt=3),
        finished(1),
        finished(2, T0_US + HOUR_US),
        finished(3, T0_US + 2 * HOUR_US),
    )
    assert [each.tariff for each in ledger.charges] == ["better", "old", "new"]


def test_late_shutters_revise_by_the_tariff_that_was_charged_by() -> None:
    ledger = Ledger()
    ledger.take(tariff("a"), submitted(), finished())
    ledger.take(tariff("b", 2, "7"), shutters(1.25))
    assert [(c.revision, c.tariff, c.price_su) for c in ledger.charges] == [
        (1, "a", "20.000000"),
        (2, "a", "12.800000"),
    ]


def test_a_version_of_a_tariff_never_changes() -> None:
    ledger = Ledger()
    ledger.take(tariff())
    with pytest.raises(AlreadyAppliedError):
        ledger.take(tariff())
    with pytest.raises(RejectedError, match="never changes"):
        ledger.take(tariff(core="2"))


@pytest.mark.parametrize(
    ("facts", "reason", "price_su", "in_full_su"),
    [
        ((finished(),), "ALONE", "20.000000", "20.000000"),
        ((shutters(1.25), finished()), "MEASURED", "12.800000", "20.000000"),
        (
            (shutters(1.25, ipc_after=2.0), finished()),
            "NO_USABLE_SHUTTER",
            "20.000000",
            "20.000000",
        ),
        ((shutters(1.25), shutters(1.0, "c"), finished()), "MEASURED", "12.800000", "20.000000"),
        ((finished(started_at_us=0),), "NEVER_STARTED", "0.000000", "0.000000"),
        ((finished(ended_at_us=T0_US),), "NO_RUN_TIME", "0.000000", "0.000000"),
        (
            (finished(intervals=[RunInterval(began_at_us=T0_US, freq_ghz=0.0)]),),
            "NO_RUN_TIME",
            "0.000000",
            "0.000000",
        ),
        (
            (finished(ended_at_us=T0_US + 87_660 * HOUR_US),),
            "IMPLAUSIBLE",
            "0.000000",
            "0.000000",
        ),
        ((finished(failed_nodes=["c-0001"]),), "NODE_FAILED", "0.000000", "20.000000"),
        (
            (finished(), JobRequeued(job_id=JOB, attempt=2)),
            "REQUEUED",
            "0.000000",
            "20.000000",
        ),
    ],
)
def test_each_price_has_a_reason(
    facts: tuple[Message, ...], reason: str, price_su: str, in_full_su: str
) -> None:
    policy: dict[str, Any] = {"node_failure": PAYER_OPERATOR, "requeue": PAYER_OPERATOR}
    for order in (facts, facts[::-1]):
        charge = priced(tariff(**policy), *order)
        assert ChargeReason.Name(charge.reason) == f"CHARGE_REASON_{reason}"
        assert (charge.price_su, charge.state_of_practice_su) == (price_su, in_full_su)


def test_what_would_cost_more_than_any_job_costs_nothing() -> None:
    charge = priced(tariff(core="1000000"), finished(nodes=10_000, cores_per_node=1_000))
    assert ChargeReason.Name(charge.reason) == "CHARGE_REASON_IMPLAUSIBLE"
    assert (charge.price_su, charge.state_of_practice_su) == ("0.000000", "0.000000")


@pytest.mark.parametrize(
    ("field", "fact"),
    [
        ("ended_at_us", finished(ended_at_us=T0_US - 1, outcome=JOB_OUTCOME_COMPLETED)),
        ("started_at_us", finished(submitted_at_us=T0_US + 1, outcome=JOB_OUTCOME_COMPLETED)),
        ("ended_at_us", shutters(1.25, until_us=T0_US - 1)),
        ("shutters[0].ipc_during", shutters(0.0)),
    ],
)
def test_times_and_shutters_that_cannot_be_are_refused_at_the_door(
    field: str, fact: Message
) -> None:
    with pytest.raises(RejectedError) as refused:
        check_contents(fact)
    assert refused.value.field == field


def test_a_run_that_is_put_back_after_its_charge_is_charged_anew_where_the_operator_bears_it() -> (
    None
):
    bears: dict[str, Any] = {"requeue": PAYER_OPERATOR}
    nothing: dict[str, Any] = {}
    for policy, revisions in ((nothing, 1), (bears, 2)):
        ledger = Ledger()
        ledger.take(tariff(**policy), submitted(), finished())
        ledger.take(JobRequeued(job_id=JOB, attempt=2))
        assert [each.revision for each in ledger.charges] == [*range(1, revisions + 1)]
    assert ledger.charges[-1].price_su == "0.000000"


def test_reprocessing_makes_the_next_revision_by_another_tariff_and_late_shutters_keep_to_it() -> (
    None
):
    ledger = Ledger()
    ledger.take(tariff("a"), tariff("b", 2, "7"), submitted(), finished())
    first = ledger.charges[0]
    assert first.tariff == "b"
    asked = RepriceAsked(charge=first, tariff="a", tariff_version=1, asked_at_us=T0_US + 9)
    ledger.take(asked)
    with pytest.raises(AlreadyAppliedError):
        ledger.take(asked)
    ledger.take(shutters(1.25))
    assert [(c.revision, c.tariff, c.price_su) for c in ledger.charges] == [
        (1, "b", "140.000000"),
        (2, "a", "20.000000"),
        (3, "a", "12.800000"),
    ]


def test_what_is_forgotten_is_reprocessed_from_the_ledger_alone() -> None:
    before = priced(tariff("b", 2, "7"), shutters(1.25), finished())
    ledger = Ledger()
    ledger.take(tariff("a"))
    ledger.take(RepriceAsked(charge=before, tariff="a", tariff_version=1, asked_at_us=T0_US))
    [again] = ledger.charges
    assert (again.revision, again.price_su) == (2, "12.800000")
    assert again.evidence == before.evidence
    with pytest.raises(RejectedError, match="was not declared"):
        ledger.take(RepriceAsked(charge=again, tariff="x", tariff_version=1, asked_at_us=T0_US))


def test_a_lost_state_that_knows_the_ledger_alone_can_be_reprocessed_and_charged_again() -> None:
    before = priced(tariff("b", 2, "7"), shutters(1.25), finished())
    ledger = Ledger()
    changes = recalled({}, [Event("c1", SOURCE, T0_US, JOB, before)])
    ledger.state = {key: value for key, value in changes.items() if value is not None}
    ledger._restart()
    ledger.take(
        tariff("a"), RepriceAsked(charge=before, tariff="a", tariff_version=1, asked_at_us=T0_US)
    )
    ledger.take(submitted(2))
    assert [(c.revision, c.price_su) for c in ledger.charges] == [(2, "12.800000")]
    with pytest.raises(AlreadyAppliedError):
        ledger.take(finished())
    ledger.take(shutters(1.25))
    assert [(c.revision, c.price_su) for c in ledger.charges[1:]] == [(3, "12.800000")]


def test_what_is_charged_for_a_closed_period_is_booked_when_it_closed() -> None:
    ledger = Ledger()
    ledger.take(submitted(), finished())
    closed_us = T0_US + 24 * HOUR_US
    ledger.take(PeriodClosed(until_us=closed_us, closed_at_us=closed_us), shutters(1.25))
    booked = [each.booked_at_us for each in ledger.charges]
    assert booked == [T0_US + HOUR_US, closed_us]


def allocation(su: str, when_empty: Any, at_us: int = T0_US) -> AllocationDeclared:
    return AllocationDeclared(
        account="physics", allocated_su=su, when_empty=when_empty, declared_at_us=at_us
    )


def started() -> JobStarted:
    return JobStarted(job_id=JOB, attempt=1, cluster="c", nodes=["c-1,c-2"], started_at_us=T0_US)


@pytest.mark.parametrize(
    ("when_empty", "standing"),
    [(WHEN_EMPTY_REFUSE, STANDING_REFUSED), (WHEN_EMPTY_WARN, STANDING_WARNED)],
)
def test_an_account_is_empty_while_its_runs_are_reserved_for(
    when_empty: WhenEmpty.ValueType, standing: int
) -> None:
    ledger = Ledger()
    cluster = ClusterDeclared(cluster="c", cores_per_node=10)
    ledger.take(tariff(), cluster, allocation("40", when_empty), submitted())
    ledger.take(started())  # 2 nodes x 10 cores x 2 h
    ledger.take(finished())
    assert [(s.standing, s.charged_su, s.reserved_su) for s in ledger.standings] == [
        (STANDING_FUNDED, "0.000000", "0.000000"),
        (standing, "0.000000", "40.000000"),
        (STANDING_FUNDED, "20.000000", "0.000000"),
    ]
    ledger.take(allocation("20", WHEN_EMPTY_RUN, T0_US + 1))
    assert ledger.standings[-1].standing == STANDING_FUNDED
    ledger.take(allocation("20", when_empty, T0_US + 2))
    ledger.take(shutters(1.25))
    assert [(s.standing, s.charged_su) for s in ledger.standings[3:]] == [
        (standing, "20.000000"),
        (STANDING_FUNDED, "12.800000"),
    ]
    assert [s.number for s in ledger.standings] == [1, 2, 3, 4, 5]


def test_an_attempt_that_never_says_how_it_ended_reserves_nothing_any_more() -> None:
    ledger = Ledger()
    cluster = ClusterDeclared(cluster="c", cores_per_node=10)
    ledger.take(tariff(), cluster, allocation("40", WHEN_EMPTY_REFUSE), submitted())
    ledger.take(started())
    ledger.take(JobRequeued(job_id=JOB, attempt=2))
    assert [each.standing for each in ledger.standings] == [
        STANDING_FUNDED,
        STANDING_REFUSED,
        STANDING_FUNDED,
    ]


def test_a_state_older_than_the_ledger_learns_from_it_what_accounts_are_charged() -> None:
    ledger = Ledger()
    ledger.take(allocation("0.5", WHEN_EMPTY_REFUSE), tariff())
    old = dict(ledger.state)
    ledger.take(submitted(), finished(), shutters(1.25))
    told = [Event(f"c{n}", SOURCE, T0_US, JOB, c) for n, c in enumerate(ledger.charges)]
    told += [Event(f"s{n}", SOURCE, T0_US, "physics", s) for n, s in enumerate(ledger.standings)]
    changes = recalled(old, told)
    ledger.state = {**old, **{k: v for k, v in changes.items() if v is not None}}
    ledger._restart()
    before = len(ledger.standings)
    ledger.take(submitted(), finished(), shutters(1.25))
    assert [(c.revision, c.price_su) for c in ledger.charges] == [
        (1, "12.800000"),
        (2, "12.800000"),
    ]
    assert ledger.standings[before:] == []
    assert recalled(ledger.state, told[:0]).keys() == {f"attempt\n{JOB}\n1", "account\nphysics"}
