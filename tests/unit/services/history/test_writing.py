"""Facts in tables: whatever comes when, however often, and wherever the process was killed."""

import itertools
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from coplace.v1.history_service_pb2 import (
    RUN_STATE_COMPLETED,
    RUN_STATE_DECIDED,
    RUN_STATE_REJECTED,
    RUN_STATE_REQUEUED,
    RUN_STATE_RUNNING,
    RUN_STATE_WAITING,
)
from coplace.v1.placement_pb2 import VERDICT_QUEUED, VERDICT_REJECTED, VERDICT_WITHDRAWN
from coplace.v1.pricing_pb2 import ChargeMade
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.history.database import Database, migrate, open_database
from services.history.model import RunRow
from services.history.writing import HistoryWriter
from services.pricing.accounts.statement import ChargeEntry, postings, statement_of, trial_balance
from shared.catalogue.record import TopicPartition
from shared.sql.positions import LostRowsError
from shared.streams.following import TopicBatch
from tests.unit.services.history.made import (
    CODEC,
    HOUR_US,
    T0_US,
    FactLog,
    apply_all,
    audited,
    batch,
    charge,
    database,
    decided,
    dump,
    finished,
    requeued,
    standing,
    started,
    submitted,
)

JOB = "north/alpha/1/1767225600"


def runs_of(log: FactLog, where: Database) -> dict[tuple[str, int], RunRow]:
    engine, writer = database(where)
    apply_all(writer, log)
    rows = map(RunRow._make, dump(engine)["runs"])
    return {row.key: row for row in rows}


def test_a_run_has_what_each_topic_says_of_it(empty: Database) -> None:
    log = FactLog()
    log.add("jobs.events", submitted(JOB), started(JOB), finished(JOB))
    log.add("placement.decisions", decided(JOB))
    log.add("prices.charges", charge(JOB, "133.333333"))
    row = runs_of(log, empty)[JOB, 1]
    assert (row.state, row.user, row.account, row.app_id) == (
        RUN_STATE_COMPLETED, "ada", "physics", "hpcg",
    )  # fmt: skip
    assert (row.cluster, row.nodes, row.node_names, row.freq_ghz) == ("alpha", 4, "n[1-4]", 2.4)
    assert (row.submitted_at_us, row.decided_at_us) == (T0_US, T0_US + 1_000_000)
    assert (row.started_at_us, row.ended_at_us) == (T0_US + 2_000_000, T0_US + HOUR_US)
    assert (row.energy_j, row.revision, row.price_micro_su) == (3.6e6, 1, 133_333_333)


@pytest.mark.parametrize(
    ("facts", "decisions", "state"),
    [
        ([submitted(JOB)], [], RUN_STATE_WAITING),
        ([submitted(JOB)], [decided(JOB)], RUN_STATE_DECIDED),
        ([submitted(JOB), started(JOB)], [decided(JOB)], RUN_STATE_RUNNING),
        ([submitted(JOB)], [decided(JOB, verdict=VERDICT_REJECTED)], RUN_STATE_REJECTED),
        ([started(JOB)], [], RUN_STATE_RUNNING),
        (
            [submitted(JOB)],
            [decided(JOB), decided(JOB, verdict=VERDICT_WITHDRAWN, decided_at_us=T0_US + HOUR_US)],
            RUN_STATE_WAITING,
        ),
        (
            [submitted(JOB)],
            [decided(JOB), decided(JOB, verdict=VERDICT_QUEUED, decided_at_us=T0_US)],
            RUN_STATE_DECIDED,
        ),
    ],
)
def test_the_state_of_a_run_follows_from_its_facts(
    empty: Database, facts: list[Any], decisions: list[Any], state: int
) -> None:
    log = FactLog()
    log.add("jobs.events", *facts)
    log.add("placement.decisions", *decisions)
    assert runs_of(log, empty)[JOB, 1].state == state


def test_a_requeued_attempt_goes_on_as_the_next_one_of_the_same_owner(empty: Database) -> None:
    log = FactLog()
    log.add("jobs.events", submitted(JOB), started(JOB), requeued(JOB))
    rows = runs_of(log, empty)
    assert rows[JOB, 1].state == RUN_STATE_REQUEUED
    assert rows[JOB, 1].requeue_reason == "a node failed"
    assert (rows[JOB, 2].state, rows[JOB, 2].user) == (RUN_STATE_WAITING, "ada")
    assert rows[JOB, 2].submitted_at_us == T0_US


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_a_task_is_whose_its_array_is_in_whatever_order_topics_are_read(
    empty: Database, order: tuple[int, ...]
) -> None:
    told = (
        ("jobs.events", submitted("a", array="0-1")),
        ("placement.decisions", decided("a_1", array_job_id="a")),
        ("jobs.events", started("a_1")),
    )
    log = FactLog()
    engine, writer = database(empty)
    for number in order:
        topic, payload = told[number]
        log.add(topic, payload)
        for place, records in log.records.items():
            if fresh := records[_at(writer, place) :]:
                writer.apply([batch(fresh, _at(writer, place))])
    rows = {row.key: row for row in map(RunRow._make, dump(engine)["runs"])}
    assert (rows["a_1", 1].user, rows["a_1", 1].account) == ("ada", "physics")
    assert rows["a_1", 1].submitted_at_us == rows["a", 1].submitted_at_us


def test_a_job_without_a_submission_is_whose_its_finish_says(empty: Database) -> None:
    log = FactLog()
    log.add("jobs.events", finished(JOB, user="bob"))
    row = runs_of(log, empty)[JOB, 1]
    assert (row.state, row.user, row.submitted_at_us) == (RUN_STATE_COMPLETED, "bob", T0_US)


def test_a_charge_says_how_a_run_ended_whose_events_are_not_kept_any_more(empty: Database) -> None:
    log = FactLog()
    log.add("prices.charges", charge(JOB))
    row = runs_of(log, empty)[JOB, 1]
    assert (row.state, row.user, row.cluster, row.nodes) == (
        RUN_STATE_COMPLETED, "ada", "alpha", 4,
    )  # fmt: skip
    assert row.ended_at_us == T0_US + HOUR_US


def test_a_start_behind_the_finish_changes_nothing(empty: Database) -> None:
    log = FactLog()
    log.add("jobs.events", submitted(JOB), finished(JOB))
    log.add("jobs.events", started(JOB, started_at_us=T0_US + HOUR_US, cluster="beta"))
    row = runs_of(log, empty)[JOB, 1]
    assert (row.cluster, row.started_at_us) == ("alpha", T0_US + 2_000_000)


def test_a_revision_gives_back_what_the_one_before_posted(empty: Database) -> None:
    log = FactLog()
    surcharged = charge(
        JOB, "90.000000", revision=2, surcharges=[("chemistry", "north/alpha/2", "4.000000")],
        booked_at_us=T0_US + 2 * HOUR_US,
    )  # fmt: skip
    log.add("prices.charges", charge(JOB), surcharged)
    engine, writer = database(empty)
    apply_all(writer, log)
    rows = dump(engine)
    assert [(row[0], row[8]) for row in rows["postings"]] == [
        ("chemistry", 4_000_000),
        ("physics", 100_000_000),
        ("physics", -100_000_000),
        ("physics", 90_000_000),
    ]
    assert {row[0]: row[1] for row in rows["accounts"]} == {
        "chemistry": "4000000", "physics": "90000000",
    }  # fmt: skip
    assert (rows["runs"][0][22], rows["runs"][0][23]) == (2, 90_000_000)


def test_sums_of_the_largest_charges_are_exact(empty: Database) -> None:
    log = FactLog()
    jobs = [f"north/alpha/{number}" for number in range(30)]
    log.add("prices.charges", *(charge(job, "999999999999.999999") for job in jobs))
    engine, writer = database(empty)
    apply_all(writer, log)
    [account] = dump(engine)["accounts"]
    assert int(account[1]) == 30 * 999_999_999_999_999_999


def test_a_charge_that_nobody_can_read_is_left_out_and_the_rest_is_applied(empty: Database) -> None:
    log = FactLog()
    log.add("prices.charges", charge(JOB, "NaN"), charge("north/alpha/2"))
    engine, writer = database(empty)
    apply_all(writer, log)
    assert [row[0] for row in dump(engine)["charges"]] == ["north/alpha/2"]


def test_the_newest_standing_counts_whichever_comes_last(empty: Database) -> None:
    log = FactLog()
    newest = standing("physics", 2, allocated_su="7.000000")
    log.add("accounts.standings", newest, standing("physics", 1))
    engine, writer = database(empty)
    apply_all(writer, log)
    assert dump(engine)["accounts"] == [("physics", "0", 2, 1, "7.000000", "10.000000", T0_US + 2)]


def test_a_copy_of_a_record_of_the_audit_is_one_row(empty: Database) -> None:
    log = FactLog()
    log.add("audit", audited("ada"), event_id="placement/1")
    log.copy(TopicPartition("audit", 0), 0)
    engine, writer = database(empty)
    apply_all(writer, log)
    assert [row[:3] for row in dump(engine)["audit"]] == [("placement/1", T0_US, "ada")]


def test_a_database_that_is_behind_what_was_read_is_not_written(empty: Database) -> None:
    log = FactLog()
    log.add("audit", audited("ada"), audited("bob"))
    _, writer = database(empty)
    [records] = log.records.values()
    with pytest.raises(LostRowsError):
        writer.apply([batch(records[1:], read_from=1)])


def test_the_migrations_make_the_tables_that_the_code_has(empty: Database) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    from services.history.tables import METADATA

    engine = open_database(empty, writes=True)
    migrate(empty, engine)
    migrate(empty, engine)
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, METADATA) == []


NAMES = st.sampled_from(["ada", "физика 👾", "100%_", "physics"])
JOBS = [f"north/alpha/{name}" for name in ("1", "2", "ü%_👾")]


@st.composite
def logs(draw: st.DrawFn) -> FactLog:
    """Facts of a few jobs, copies of some among them."""
    log = FactLog()
    for job in JOBS:
        user, account = draw(NAMES), draw(NAMES)
        of: dict[str, Any] = {"user": user, "account": account}
        facts = [
            *draw(st.lists(st.just(submitted(job, **of)), max_size=1)),
            *draw(st.lists(st.just(started(job)), max_size=1)),
            *draw(st.lists(st.sampled_from([finished(job, **of), requeued(job)]), max_size=2)),
            *draw(st.lists(st.just(finished(job, 2, **of)), max_size=1)),
            *draw(st.lists(st.just(started(job, cluster="beta")), max_size=1)),
        ]
        log.add("jobs.events", *facts)
        verdicts = st.sampled_from([decided(job), decided(job, verdict=VERDICT_QUEUED, reason="x")])
        log.add("placement.decisions", *draw(st.lists(verdicts, max_size=3)))
        prices = st.sampled_from(["1.000001", "0.000000", "999999999999.000000"])
        revisions = draw(st.lists(st.integers(1, 3), unique=True, max_size=3))
        for revision in revisions:
            surcharges = draw(st.lists(st.tuples(NAMES, st.just("b"), prices), max_size=2))
            made = charge(
                job,
                draw(prices),
                revision=revision,
                surcharges=surcharges,
                finished=finished(job, **of),
                booked_at_us=T0_US + draw(st.integers(0, 2)) * HOUR_US,
            )
            log.add("prices.charges", made)
        log.add("accounts.standings", standing(account, draw(st.integers(1, 3))))
    for place in [place for place, records in log.records.items() if records]:
        for offset in draw(st.lists(st.integers(0, len(log.records[place]) - 1), max_size=2)):
            if place.topic != "placement.decisions":
                log.copy(place, offset)
    return log


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(log=logs(), data=st.data())
def test_any_order_of_batches_with_repeats_and_kills_makes_the_same_rows(
    log: FactLog, data: st.DataObject, fresh_database: Callable[[], Database]
) -> None:
    engine, writer = database(fresh_database())
    apply_all(writer, log)
    other, piecewise = database(fresh_database())
    ends = {place: len(records) for place, records in log.records.items()}
    while open_ones := sorted(place for place, end in ends.items() if _at(piecewise, place) < end):
        place = data.draw(st.sampled_from(open_ones))
        position = _at(piecewise, place)
        begin = data.draw(st.integers(0, position))
        until = data.draw(st.integers(position + 1, ends[place]))
        found = TopicBatch(place, begin, log.records[place][begin:until], until)
        if data.draw(st.booleans()):
            # Killed before its commit: nothing of it is there.
            with pytest.raises(KeyboardInterrupt):
                _killed(piecewise, found)
            assert _at(piecewise, place) == position
        piecewise.apply([found])
    assert dump(other) == dump(engine)


def _at(writer: HistoryWriter, place: TopicPartition) -> int:
    return writer.positions()[place].position


def _killed(writer: HistoryWriter, found: TopicBatch) -> None:
    with pytest.MonkeyPatch.context() as patch:
        from services.history import writing

        whole = writing._write

        def and_end(*of: Any) -> None:
            whole(*of)
            raise KeyboardInterrupt

        patch.setattr(writing, "_write", and_end)
        writer.apply([found])


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(log=logs())
def test_balances_and_postings_are_those_that_billing_computes_from_the_topic(
    log: FactLog, fresh_database: Callable[[], Database]
) -> None:
    engine, writer = database(fresh_database())
    apply_all(writer, log)
    rows = dump(engine)
    charges: dict[tuple[str, int, int], ChargeEntry] = {}
    for place, records in sorted(log.records.items()):
        if place.topic == "prices.charges":
            for record in records:
                made = CODEC.decode(record).payload
                assert isinstance(made, ChargeMade)
                entry = ChargeEntry.from_charge(made)
                charges.setdefault(entry[:3], entry)
    posted = postings(charges.values())
    balances = trial_balance(posted)
    owed = {row[0]: Decimal(row[1]).scaleb(-6) for row in rows["accounts"]}
    expected = {name.removeprefix("account "): su for name, su in balances.items()}
    del expected["operator"]
    assert {name: su for name, su in owed.items() if name in expected or su} == expected
    own = sorted((row[0], row[1], row[2], row[8]) for row in rows["postings"])
    assert own == sorted(
        (each.account, each.booked_at_us, each.entry.job_id, int(each.amount_su.scaleb(6)))
        for each in posted
    )
    assert statement_of("ada", posted, 0, T0_US * 2).closing_su == expected.get("ada", 0)
