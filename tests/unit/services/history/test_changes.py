"""What each command changed: nothing that can be declared is left out, and what one change leaves
is what the next one of its subject finds."""

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

import orjson
import pytest
from coplace.v1.accounts_pb2 import WHEN_EMPTY_WARN, AllocationDeclared, PeriodClosed
from coplace.v1.authority_pb2 import (
    AUTHORITY_ROLE_OPERATOR,
    AUTHORITY_ROLE_VIEWER,
    AuthorityDeclared,
    RoleBinding,
)
from coplace.v1.control_pb2 import (
    COMMAND_RESULT_EARLY,
    COMMAND_RESULT_IN_FORCE,
    COMMAND_RESULT_REFUSED,
    LICENCE_SCOPE_REGION,
    LICENCE_SCOPE_SITE,
    LIMIT_SUBJECT_USER,
    POWER_SCOPE_CLUSTER,
    POWER_SCOPE_REGION,
    ClusterDeclared,
    ClusterLost,
    ClusterReturned,
    ClusterUndeclared,
    CommandOutcome,
    LicencesDeclared,
    LimitsDeclared,
    ModelPinned,
    ModelRolledBack,
    NamedSetting,
    NodesDrained,
    NodesResumed,
    PairsAllowed,
    PolicyDeclared,
    PowerCapDeclared,
    PowerCapStep,
    ReservationDeclared,
    ReservationRemoved,
)
from coplace.v1.energy_pb2 import CoefficientsDeclared
from coplace.v1.history_service_pb2 import ListAuditRequest
from coplace.v1.jobs_pb2 import (
    HOLDER_MANAGER,
    HOLDER_USER,
    JobCancelled,
    JobHeld,
    JobPrioritized,
    JobReleased,
    JobRequeueAsked,
    JobResumed,
    JobSeized,
    JobSuspended,
)
from coplace.v1.plans_pb2 import PlanProposed
from coplace.v1.pricing_pb2 import ChargeMade, RepriceAsked
from coplace.v1.tariffs_pb2 import PRICE_MODEL_FAIR, TariffDeclared, TariffRate
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from services.history.changes import CHANGES, ChangeRow, OutcomeRow, changes_of, followed
from services.history.database import Database
from services.history.facts import TOPICS
from services.history.reading import HistoryReader
from shared.catalogue.event import Event
from shared.catalogue.options import owners, rule_of
from shared.catalogue.schemas import MESSAGES, descriptor_of
from shared.catalogue.topics import load_topics
from shared.streams.following import TopicBatch
from tests.unit.services.history.made import T0_US, FactLog, apply_all, audited, database, dump

JOB = "north/alpha/1/1767225600"
# Of each kind one, and the subject that it changes.
_SAMPLES: list[tuple[Message, str]] = [
    (ClusterDeclared(cluster="alpha", site="north"), "cluster alpha"),
    (ClusterUndeclared(cluster="alpha", reason="sold"), "cluster alpha"),
    (ClusterLost(cluster="alpha", reason="power"), "reach alpha"),
    (ClusterReturned(cluster="alpha"), "reach alpha"),
    (NodesDrained(cluster="alpha", nodes=["n1"], reason="fan"), "drains alpha"),
    (NodesResumed(cluster="alpha", nodes=["n1"]), "drains alpha"),
    (LimitsDeclared(subject=LIMIT_SUBJECT_USER, name="ada", most_nodes=4), "limits user ada"),
    (ReservationDeclared(cluster="alpha", name="course"), "reservation alpha course"),
    (ReservationRemoved(cluster="alpha", name="course"), "reservation alpha course"),
    (
        LicencesDeclared(scope=LICENCE_SCOPE_SITE, place="north", name="matlab", count=5),
        "licence site north matlab",
    ),
    (LicencesDeclared(scope=LICENCE_SCOPE_REGION, name="ansys"), "licence region ansys"),
    (PowerCapDeclared(scope=POWER_SCOPE_CLUSTER, name="alpha"), "cap cluster alpha"),
    (PowerCapDeclared(scope=POWER_SCOPE_REGION), "cap region"),
    (PolicyDeclared(settings=[NamedSetting(name="threshold", value="0.2")]), "policy threshold"),
    (CoefficientsDeclared(node_model="skylake", tpi_scale="1"), "coefficients skylake"),
    (PlanProposed(round=7), "plan"),
    (ModelPinned(model="power-trees", version="3"), "model power-trees"),
    (ModelRolledBack(model="power-trees"), "model power-trees"),
    (PairsAllowed(app_id="hpcg"), "pairs * hpcg *"),
    (TariffDeclared(name="2026", version=2), "tariff 2026"),
    (AllocationDeclared(account="physics", allocated_su="5"), "allocation physics"),
    (PeriodClosed(until_us=T0_US), "period"),
    (RepriceAsked(charge=ChargeMade(job_id=JOB, attempt=2), tariff="2026"), f"charge {JOB} 2"),
    (AuthorityDeclared(version=1), "authority"),
    (JobCancelled(job_id=JOB), f"job {JOB}"),
    (JobSeized(job_id=JOB, reason="off"), f"job {JOB}"),
    (JobRequeueAsked(job_id=JOB), f"job {JOB}"),
    (JobHeld(job_id=JOB), f"hold {JOB}"),
    (JobReleased(job_id=JOB), f"hold {JOB}"),
    (JobReleased(job_id=JOB, holders=[HOLDER_USER, HOLDER_MANAGER]), f"hold {JOB}"),
    (JobPrioritized(job_id=JOB, priority=5), f"priority {JOB}"),
    (JobSuspended(job_id=JOB), f"suspension {JOB}"),
    (JobResumed(job_id=JOB), f"suspension {JOB}"),
]


def command(payload: Message, number: int = 1, at_us: int = T0_US, source: str = "olga") -> Event:
    return Event(f"{source}/{payload.DESCRIPTOR.name}/{number}", source, at_us, "", payload)


def test_no_kind_of_change_that_is_declared_is_left_out() -> None:
    rules = {name: rule_of(descriptor_of(message)) for name, message in MESSAGES.items()}
    by_operators = {name for name, rule in rules.items() if {*rule.roles} == {"operator"}}
    declared = {*owners()} | by_operators
    assert {sample.DESCRIPTOR.full_name for sample, _ in _SAMPLES} == declared == CHANGES


def test_every_kind_of_change_comes_by_a_topic_that_is_followed() -> None:
    topics = load_topics()
    followed_kinds = {name for topic in TOPICS for name in topics[topic].messages}
    assert followed_kinds >= CHANGES
    assert [topic for topic in TOPICS if "history" not in topics[topic].consumers] == []


@pytest.mark.parametrize(("payload", "subject"), _SAMPLES)
def test_each_kind_names_what_it_changes_once(payload: Message, subject: str) -> None:
    [row] = changes_of(command(payload), 0)
    assert row.subject == subject
    declared = orjson.loads(row.declared)
    assert "job_id" not in declared
    assert "cluster" not in declared


def test_a_declaration_of_the_policy_changes_each_setting_that_it_names() -> None:
    message = PolicyDeclared(
        threshold=0.3,
        settings=[NamedSetting(name="cap_risk", value="0.05")],
        reset=["max_slowdown"],
        reason="heat",
    )
    rows = changes_of(command(message), 0)
    assert {row.subject: orjson.loads(row.declared) for row in rows} == {
        "policy threshold": {"value": 0.3, "reason": "heat"},
        "policy cap_risk": {"value": "0.05", "reason": "heat"},
        "policy max_slowdown": {"reset": True, "reason": "heat"},
    }


def values(*commands: Message, source: str = "olga") -> list[tuple[Any, Any]]:
    """What was before and after each of some commands on one subject."""
    rows = [
        row
        for number, each in enumerate(commands)
        for row in changes_of(command(each, number, T0_US + number, source), number)
    ]
    return [
        (orjson.loads(row.before or "null"), orjson.loads(row.after or "null"))
        for row in followed("", rows, {})
    ]


def test_drains_of_nodes_add_up_until_they_are_resumed() -> None:
    fan = {"by": "olga", "reason": "fan"}
    found = values(
        NodesDrained(cluster="alpha", nodes=["n[1-3]"], reason="fan"),
        NodesDrained(cluster="alpha", nodes=["n2"], reason="disk"),
        NodesResumed(cluster="alpha", nodes=["n[1-2]"]),
        NodesDrained(cluster="alpha", reason="all"),
        NodesResumed(cluster="alpha", nodes=["n9"]),
        NodesResumed(cluster="alpha"),
    )
    every = {"by": "olga", "reason": "all"}
    assert [after for _, after in found] == [
        {"drained": [fan | {"nodes": ["n1", "n2", "n3"]}]},
        {"drained": [fan | {"nodes": ["n1", "n3"]}, fan | {"reason": "disk", "nodes": ["n2"]}]},
        {"drained": [fan | {"nodes": ["n3"]}]},
        {"drained": [every, fan | {"nodes": ["n3"]}]},
        {"drained": [every, fan | {"nodes": ["n3"]}], "resumed": ["n9"]},
        {"drained": []},
    ]


def test_a_reservation_that_is_removed_leaves_nothing() -> None:
    one: dict[str, Any] = {"cluster": "alpha", "name": "course"}
    found = values(
        ReservationDeclared(**one, node_count=3),
        ReservationRemoved(**one, reason="over"),
        ReservationDeclared(**one, node_count=4),
    )
    assert [after for _, after in found] == [{"node_count": 3}, None, {"node_count": 4}]


def test_licences_that_are_removed_leave_nothing_and_none_of_them_is_a_number() -> None:
    one: dict[str, Any] = {"scope": LICENCE_SCOPE_REGION, "name": "matlab"}
    found = values(
        LicencesDeclared(**one, count=3),
        LicencesDeclared(**one, count=0),
        LicencesDeclared(**one, reason="sold"),
        LicencesDeclared(**one, count=4),
    )
    assert [after for _, after in found] == [{"count": 3}, {"count": 0}, None, {"count": 4}]


def test_a_table_of_authority_that_does_not_count_changes_nothing() -> None:
    olga = RoleBinding(who="olga", role=AUTHORITY_ROLE_OPERATOR, sites=["*"])
    vera = RoleBinding(who="vera", role=AUTHORITY_ROLE_VIEWER, sites=["*"])
    tables = [
        AuthorityDeclared(version=1, bindings=[olga]),
        AuthorityDeclared(version=3, bindings=[olga]),
        AuthorityDeclared(version=2, bindings=[vera]),
        AuthorityDeclared(version=2, bindings=[olga, vera]),
    ]
    assert [after["version"] for _, after in values(*tables)] == [1, 1, 1, 2]


def test_a_change_that_its_owner_refused_leaves_what_was(empty: Database) -> None:
    cap: dict[str, Any] = {"scope": POWER_SCOPE_REGION, "declared_at_us": T0_US}
    log = FactLog()
    log.add("commands", PowerCapDeclared(**cap, steps=[PowerCapStep(from_us=T0_US, watts=5_000)]))
    log.add("commands", PowerCapDeclared(**cap, steps=[PowerCapStep(from_us=T0_US, watts=1)]))
    log.add("commands", PowerCapDeclared(**cap, steps=[PowerCapStep(from_us=T0_US, watts=7_000)]))
    for result, reason in (
        (COMMAND_RESULT_EARLY, "wait"),
        (COMMAND_RESULT_REFUSED, "no"),
        (COMMAND_RESULT_IN_FORCE, ""),
    ):
        outcome = CommandOutcome(command_id="test/2", result=result, reason=reason)
        log.add("command.outcomes", outcome)
    engine, writer = database(empty)
    apply_all(writer, log)
    rows = [ChangeRow._make(row) for row in dump(engine)["changes"]]
    watts = [_watts(row.after) for row in sorted(rows, key=lambda row: row.order)]
    assert watts == [5_000, 5_000, 7_000]
    assert (rows[1].result, rows[1].reason) == (COMMAND_RESULT_REFUSED, "no")
    assert _watts(rows[2].before) == 5_000


def _watts(text: str) -> float:
    watts: float = orjson.loads(text)["steps"][0]["watts"]
    return watts


def test_who_was_let_in_with_a_command_is_one_entry_with_it(empty: Database) -> None:
    command_id = "test/1"
    log = FactLog()
    limits = LimitsDeclared(subject=LIMIT_SUBJECT_USER, name="ada", most_nodes=4)
    log.add("commands", limits, event_id=command_id)
    access: dict[str, Any] = {"action": "limits_declared", "event_id": command_id}
    log.add("audit", audited("bob", refused=True, **access), audited("olga", **access))
    log.add("audit", audited("olga", T0_US + 5, **access))
    engine, writer = database(empty)
    apply_all(writer, log)
    rows = dump(engine)["audit"]
    assert sorted((row[2], row[5], row[8], row[10]) for row in rows) == [
        ("bob", True, "placement", False),
        ("olga", False, "placement", True),
    ]


def commands() -> st.SearchStrategy[Message]:
    """Commands on few subjects."""
    nodes = st.lists(st.sampled_from(["n1", "n[1-3]", "n9"]), max_size=2)
    names = st.sampled_from(["threshold", "cap_risk"])
    return st.one_of(
        st.builds(
            lambda cluster, hosts, reason: NodesDrained(
                cluster=cluster, nodes=hosts, reason=reason, drained_at_us=T0_US
            ),
            st.sampled_from(["alpha", "beta"]), nodes, st.sampled_from(["fan", "disk"]),
        ),
        st.builds(
            lambda hosts: NodesResumed(cluster="alpha", nodes=hosts, resumed_at_us=T0_US), nodes
        ),
        st.builds(
            lambda name, value: PolicyDeclared(
                settings=[NamedSetting(name=name, value=value)], reset=["max_slowdown"],
                declared_at_us=T0_US,
            ),
            names, st.sampled_from(["0.1", "0.2"]),
        ),
        st.builds(
            lambda watts: PowerCapDeclared(
                scope=POWER_SCOPE_REGION, declared_at_us=T0_US,
                steps=[PowerCapStep(from_us=T0_US, watts=watts)],
            ),
            st.integers(1_000, 9_000),
        ),
    )  # fmt: skip


@st.composite
def histories(draw: st.DrawFn) -> tuple[FactLog, int]:
    """Commands in whatever order of times, copies among them, and what their owners said."""
    log, made = FactLog(), draw(st.lists(commands(), min_size=1, max_size=12))
    for number, payload in enumerate(made):
        at_us = T0_US + draw(st.integers(0, 5))
        log.add("commands", payload, event_id=f"olga/{number}", time_us=at_us)
    for number in draw(st.lists(st.integers(0, len(made) - 1), max_size=6)):
        result = draw(st.sampled_from([COMMAND_RESULT_EARLY, COMMAND_RESULT_REFUSED]))
        outcome = CommandOutcome(command_id=f"olga/{number}", result=result, reason="no")
        log.add("command.outcomes", outcome)
    [place] = [place for place in log.records if place.topic == "commands"]
    for offset in draw(st.lists(st.integers(0, len(made) - 1), max_size=3)):
        log.copy(place, offset)
    return log, len(made)


@settings(max_examples=20, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories(), sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_each_change_finds_what_the_one_before_left_however_they_were_read(
    history: tuple[FactLog, int], sizes: list[int], fresh_database: Callable[[], Database]
) -> None:
    log, made = history
    engine, writer = database(fresh_database())
    apply_all(writer, log)
    whole = dump(engine)
    by_subject: dict[str, list[ChangeRow]] = defaultdict(list)
    for row in map(ChangeRow._make, whole["changes"]):
        by_subject[row.subject].append(row)
    for rows in by_subject.values():
        rows.sort(key=lambda row: row.order)
        assert rows[0].before == ""
        assert [row.before for row in rows[1:]] == [row.after for row in rows[:-1]]
        assert all(row.after == row.before for row in rows if row.result == COMMAND_RESULT_REFUSED)
    assert len({row[0] for row in whole["changes"]}) == made
    other, piecewise = database(fresh_database())
    for place, read_from, records in _pieces(log, sizes):
        piecewise.apply([TopicBatch(place, read_from, records, read_from + len(records))])
    assert dump(other)["changes"] == whole["changes"]
    assert dump(other)["audit"] == whole["audit"]


def _pieces(log: FactLog, sizes: Sequence[int]) -> Iterator[tuple[Any, int, Any]]:
    """Batches of these sizes, outcomes before their commands."""
    for place, records in sorted(log.records.items()):
        position, number = 0, 0
        while position < len(records):
            size = sizes[number % len(sizes)]
            yield place, position, records[position : position + size]
            position, number = position + size, number + 1


def test_outcomes_are_known_by_their_commands() -> None:
    rows = changes_of(command(JobHeld(job_id=JOB)), 0)
    refused = OutcomeRow(rows[0].event_id, COMMAND_RESULT_REFUSED, "it is over")
    [row] = followed("", rows, {refused.id: refused})
    assert (row.after, row.reason) == ("", "it is over")


def test_what_accounts_may_spend_is_a_change_of_their_own(empty: Database) -> None:
    log = FactLog()
    of: dict[str, Any] = {
        "account": "physics",
        "when_empty": WHEN_EMPTY_WARN,
        "declared_at_us": T0_US,
    }
    for su in ("5.000000", "9.000000"):
        log.add("billing", AllocationDeclared(allocated_su=su, **of))
    rate = TariffRate(resource="core", su="1")
    tariff: dict[str, Any] = {
        "name": "t",
        "version": 1,
        "from_us": T0_US,
        "model": PRICE_MODEL_FAIR,
    }
    log.add("billing", TariffDeclared(rates=[rate], declared_at_us=T0_US, **tariff))
    engine, writer = database(empty)
    apply_all(writer, log)
    rows = [ChangeRow._make(row) for row in dump(engine)["changes"]]
    spend = [row for row in rows if row.subject == "allocation physics"]
    assert orjson.loads(spend[1].before)["allocated_su"] == "5.000000"
    assert orjson.loads(spend[1].after)["allocated_su"] == "9.000000"
    assert [row.before for row in rows if row.subject == "tariff t"] == [""]


def test_the_longest_names_are_rows_of_each_database(empty: Database) -> None:
    """Each letter has four bytes: an index of PostgreSQL takes 2,704 of them."""
    names = ["\N{MATHEMATICAL BOLD SMALL A}" * 256 for _ in range(3)]
    log = FactLog()
    for number in range(2):
        pairs = PairsAllowed(
            node_model=names[0], app_id=names[1], co_runner_app_id=names[2], allowed_at_us=T0_US
        )
        long_id = "\N{MATHEMATICAL BOLD SMALL A}" * 250 + str(number)
        log.add("commands", pairs, event_id=long_id, time_us=T0_US + number)
    engine, writer = database(empty)
    apply_all(writer, log)
    first, second = sorted(map(ChangeRow._make, dump(engine)["changes"]), key=lambda row: row.order)
    assert first.subject == second.subject
    assert second.before == first.after


def test_whoever_has_the_longest_name_is_found_in_the_audit_of_each_database(
    empty: Database,
) -> None:
    """An index of PostgreSQL compresses what repeats."""
    name = Random(1).randbytes(2_000).hex()
    log = FactLog()
    log.add("audit", audited(name))
    drain = NodesDrained(cluster="alpha", nodes=["n1"], reason="fan", drained_at_us=T0_US)
    log.add("commands", drain, source=name)
    engine, writer = database(empty)
    apply_all(writer, log)
    found = HistoryReader(engine).audit(ListAuditRequest(who=name), None, 10)
    assert sorted(row.action for row in found) == ["Explain", "nodes_drained"]
