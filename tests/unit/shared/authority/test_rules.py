"""Each role against each payload kind and RPC, about its own and others' things, held to a plain
statement of who may: written from what roles are for, and not from the code."""

from itertools import product
from typing import Final

import pytest
from coplace.v1 import (
    energy_service_pb2,
    history_service_pb2,
    ingest_service_pb2,
    placement_service_pb2,
    watch_service_pb2,
    webhook_service_pb2,
)
from coplace.v1.ingest_service_pb2 import Envelope
from hypothesis import given
from hypothesis import strategies as st

from services.ingest.payloads import KINDS
from shared.authority.binding import Binding, Role, SitedCluster
from shared.authority.holding import HeldRun
from shared.authority.rules import RULES, About, OwnedJob, judged
from shared.catalogue.guards import PAYLOADS
from shared.catalogue.options import rule_of

ALPHA, SIGMA = SitedCluster("alpha", "north"), SitedCluster("sigma", "south")

# Everybody is of site north, but for who is of all sites.
WHO: Final = {
    "viewer": Binding("v", Role.VIEWER, sites=("north",)),
    "user": Binding("ada", Role.USER, accounts=("physics",), jobs=("north/ada-*",)),
    "operator": Binding(
        "o", Role.OPERATOR, sites=("north",), accounts=("physics",), users=("ada",)
    ),
    "billing": Binding("b", Role.BILLING, accounts=("physics",)),
    "manager": Binding("north", Role.RESOURCE_MANAGER, sites=("north",), accounts=("physics",)),
    "agent": Binding("a", Role.AGENT, sites=("north",)),
    "region": Binding("r", Role.OPERATOR, sites=("*",)),
}

OWN_JOB = OwnedJob("north/ada-1", "ada", "physics")
# Ours in every respect, and at work with the neighbour.
LENT_JOB = OwnedJob("north/ada-2", "ada", "physics", (HeldRun(1, 1, SIGMA),))
# The neighbour's, granted to a cluster of ours.
GUEST_JOB = OwnedJob("south/bob-1", "bob", "biology", (HeldRun(1, 1, ALPHA),))
OTHERS_JOB = OwnedJob("south/bob-2", "bob", "biology", (HeldRun(1, 1, SIGMA),))
WAITING_JOB = OwnedJob("south/bob-3", "bob", "biology")


def of_job(job: OwnedJob, *clusters: SitedCluster) -> About:
    return About(clusters=clusters, user=job.user, account=job.account, job=job)


# What each situation names; `theirs` is what of the neighbour's could replace it.
SITUATIONS: Final[dict[str, dict[str, About]]] = {
    "submission": {
        "own": of_job(OWN_JOB, ALPHA),
        "theirs": of_job(WAITING_JOB, SIGMA),
        "their user": About(clusters=(ALPHA,), user="bob", account="physics", job=OWN_JOB),
        "their account": About(clusters=(ALPHA,), user="ada", account="biology", job=OWN_JOB),
        "their cluster": of_job(OWN_JOB, SIGMA),
        "their job id": About(
            clusters=(ALPHA,), user="ada", account="physics", job=OwnedJob("south/ada-1")
        ),
    },
    "run": {
        "own": of_job(OWN_JOB, ALPHA),
        "guest": of_job(GUEST_JOB, ALPHA),
        "lent": of_job(LENT_JOB, ALPHA),
        "lent, there": of_job(LENT_JOB, SIGMA),
        "theirs": of_job(OTHERS_JOB, SIGMA),
        "theirs as if here": of_job(OTHERS_JOB, ALPHA),
        "theirs that waits": of_job(WAITING_JOB, ALPHA),
    },
    "finish": {
        "own": of_job(OWN_JOB, ALPHA),
        "guest": of_job(GUEST_JOB, ALPHA),
        "guest of nobody": of_job(OwnedJob("south/bob-8", runs=(HeldRun(1, 1, ALPHA),)), ALPHA),
        "guest on our account": About(
            clusters=(ALPHA,), user="bob", account="physics", job=GUEST_JOB
        ),
        "own on their account": About(
            clusters=(ALPHA,), user="ada", account="biology", job=OWN_JOB
        ),
        "theirs": of_job(OTHERS_JOB, SIGMA),
        "theirs as if here": of_job(OTHERS_JOB, ALPHA),
        "theirs that waits": of_job(WAITING_JOB, ALPHA),
    },
    "order": {
        "own": About(job=OWN_JOB),
        "guest": About(job=GUEST_JOB),
        "lent": About(job=LENT_JOB),
        "theirs": About(job=OTHERS_JOB),
        "theirs that waits": About(job=WAITING_JOB),
    },
    "cluster": {
        "own": About(clusters=(ALPHA,), site="north"),
        "theirs": About(clusters=(SIGMA,)),
        "theirs as ours": About(clusters=(SIGMA,), site="north"),
        "ours as theirs": About(clusters=(ALPHA,), site="south"),
        "new of theirs": About(clusters=(SitedCluster("new", "south"),), site="south"),
        "new of ours": About(clusters=(SitedCluster("new", "north"),), site="north"),
    },
    "measurement": {
        "own": About(clusters=(ALPHA,), node_model="m0", having_model=(ALPHA, SIGMA)),
        "their model": About(clusters=(ALPHA,), node_model="m1", having_model=(SIGMA,)),
        "theirs": About(clusters=(SIGMA,), node_model="m1", having_model=(SIGMA,)),
    },
    "limits": {
        "own site": About(site="north"),
        "their site": About(site="south"),
        "region": About(is_region=True),
    },
    "limit": {
        "own site": About(site="north"),
        "their site": About(site="south"),
        "own user": About(user="ada"),
        "own account": About(account="physics"),
        "their user": About(user="bob"),
        "their account": About(account="biology"),
    },
    "allocation": {
        "own account": About(account="physics"),
        "their account": About(account="biology"),
    },
    "cap": {
        "own": About(clusters=(ALPHA,)),
        "own site": About(site="north"),
        "theirs": About(clusters=(SIGMA,)),
        "their site": About(site="south"),
        "region": About(is_region=True),
    },
    "region": {"region": About(is_region=True)},
    "nodes": {
        "own": About(clusters=(ALPHA,)),
        "theirs": About(clusters=(SIGMA,)),
        "region": About(is_region=True),
    },
    "list": {
        "own cluster": About(clusters=(ALPHA,)),
        "own user": About(user="ada"),
        "own account": About(account="physics"),
        "their cluster": About(clusters=(SIGMA,)),
        "their user": About(user="bob"),
        "their account": About(account="biology"),
        "all": About(),
    },
    "watch": {
        "own clusters": About(clusters=(ALPHA,), site="north"),
        "their clusters": About(clusters=(SIGMA,), site="south"),
        "theirs among ours": About(clusters=(ALPHA, SIGMA), site="north"),
        "their jobs on ours": About(clusters=(ALPHA,), site="south"),
        "of no cluster that is declared": About(clusters=(SitedCluster("new"),), site="south"),
        "own user": About(user="ada"),
        "their user": About(user="bob"),
    },
    "statement": {
        "own account": About(account="physics"),
        "own lines": About(account="physics", user="ada"),
        "their lines": About(account="physics", user="bob"),
        "their account": About(account="biology"),
        "own lines of their account": About(account="biology", user="ada"),
    },
    "webhook": {
        "own user": About(user="ada"),
        "own account": About(account="physics"),
        "their user": About(user="bob"),
        "their account": About(account="biology"),
        "region": About(is_region=True),
        "nobody": About(),
    },
    "anything": {"all": About()},
}

# For whom is which situation right, by kind. Whoever is not named may not.
_Allowed = dict[str, tuple[str, ...]]


def _all_of(kind: str) -> tuple[str, ...]:
    return tuple(SITUATIONS[kind])


_OF_NORTH = ("own", "guest", "lent")
_BY_MANAGER = {"operator": _OF_NORTH, "manager": _OF_NORTH, "region": _all_of("order")}
_BY_USER = {"user": ("own", "lent"), **_BY_MANAGER}
_PLACES = ("own", "new of ours")
_OF_LIMITS = {"operator": ("own user", "own account", "own site"), "region": _all_of("limit")}
_OF_NODES = {"operator": ("own",), "region": _all_of("nodes")}
_OF_REGION: _Allowed = {"region": ("region",)}
_BY_ALL_WHO_ASK: _Allowed = dict.fromkeys(WHO.keys() - {"agent"}, ("all",))
# Who may what in which situations of a kind, by actions for which the same holds.
_LINES: Final[list[tuple[str, str, _Allowed]]] = [
    (
        "job_submitted Quote",
        "submission",
        {"user": ("own", "their cluster"), "manager": ("own", "their user")},
    ),
    (
        "job_started job_declined job_action_done job_action_refused job_limit_changed",
        "run",
        {"manager": ("own", "guest")},
    ),
    ("shutters_measured", "run", {"agent": ("own", "guest")}),
    ("job_finished", "finish", {"manager": ("own", "guest")}),
    ("job_requeued", "order", {"manager": ("own", "guest")}),
    ("job_seized", "order", {"operator": _OF_NORTH, "region": _all_of("order")}),
    ("job_cancelled job_held job_released job_requeue_asked", "order", _BY_USER),
    ("job_suspended job_resumed job_prioritized", "order", _BY_MANAGER),
    ("Explain ShowStory", "order", {"viewer": _OF_NORTH, "billing": ("own", "lent"), **_BY_USER}),
    ("signature_measured node_samples", "measurement", {"agent": ("own",)}),
    (
        "cluster_declared",
        "cluster",
        {"operator": _PLACES, "manager": _PLACES, "region": _all_of("cluster")},
    ),
    (
        "cluster_lost cluster_returned nodes_drained nodes_resumed"
        " reservation_declared reservation_removed",
        "nodes",
        {"manager": ("own",), **_OF_NODES},
    ),
    ("manager_alive node_power_declared", "nodes", {"manager": ("own",)}),
    ("ListLicences", "nodes", {"viewer": ("own",), "manager": ("own",), **_OF_NODES}),
    ("jobs_reordered", "nodes", {"manager": ("own",)}),
    ("cluster_undeclared", "nodes", _OF_NODES),
    ("ShowNodes ListReservations", "nodes", {"viewer": ("own",), "manager": ("own",), **_OF_NODES}),
    (
        "ListLimits",
        "limits",
        {
            **dict.fromkeys(("viewer", "operator", "manager"), ("own site",)),
            "region": _all_of("limits"),
        },
    ),
    ("limits_declared", "limit", {"manager": ("own account", "own site"), **_OF_LIMITS}),
    (
        "allocation_declared",
        "allocation",
        {
            "operator": ("own account",),
            "region": _all_of("allocation"),
        },
    ),
    ("power_cap_declared", "cap", {"operator": ("own", "own site"), "region": _all_of("cap")}),
    (
        "licences_declared",
        "cap",
        {
            "operator": ("own", "own site"),
            "manager": ("own", "own site"),
            "region": _all_of("cap"),
        },
    ),
    (
        "policy_declared coefficients_declared plan_proposed model_pinned model_rolled_back"
        " pairs_allowed tariff_declared period_closed reprice_asked authority_declared"
        " ListAccounts ListAudit ShowAuthority",
        "region",
        _OF_REGION,
    ),
    (
        "ListCharges",
        "list",
        {
            **dict.fromkeys(("viewer", "operator"), ("own cluster",)),
            "user": ("own user",),
            "billing": ("own account",),
            "region": _all_of("list"),
        },
    ),
    (
        "ShowAccount",
        "allocation",
        {
            **dict.fromkeys(("user", "operator", "billing"), ("own account",)),
            "region": _all_of("allocation"),
        },
    ),
    (
        "ShowStatement",
        "statement",
        {
            "user": ("own lines",),
            **dict.fromkeys(("operator", "billing"), ("own account", "own lines", "their lines")),
            "region": _all_of("statement"),
        },
    ),
    (
        "ListJobs ListRuns",
        "list",
        {
            **dict.fromkeys(("viewer", "operator", "manager"), ("own cluster",)),
            "user": ("own user",),
            "billing": ("own account",),
            "region": _all_of("list"),
        },
    ),
    (
        "WatchDecisions",
        "watch",
        {
            **dict.fromkeys(("viewer", "manager"), ("own clusters",)),
            "operator": ("own clusters", "own user"),
            "user": ("own user",),
            "region": _all_of("watch"),
        },
    ),
    (
        "AddWebhook RemoveWebhook TestWebhook RotateWebhookSecret ListFailedDeliveries"
        " RetryDeliveries",
        "webhook",
        {
            "user": ("own user",),
            "operator": ("own user", "own account"),
            "region": tuple(each for each in SITUATIONS["webhook"] if each != "nobody"),
        },
    ),
    ("ListWebhooks", "anything", dict.fromkeys(("user", "operator", "region"), ("all",))),
    ("ListClusters ListTariffs ShowPower ShowPolicy Project", "anything", _BY_ALL_WHO_ASK),
]
STATEMENT: Final = {
    action: (kind, allowed) for actions, kind, allowed in _LINES for action in actions.split()
}
# Nobody reaches these by the table: their doors are how payloads come in, and callers learn what
# came of their own.
_WAYS_IN: Final = ("Publish", "PublishStream", "ShowOutcome", "ShowIssuer")

CELLS: Final = [
    (action, who, situation)
    for action, (kind, _) in STATEMENT.items()
    for who in WHO
    for situation in SITUATIONS[kind]
]


@pytest.mark.parametrize("action", STATEMENT)
def test_a_role_may_what_the_statement_says_and_nothing_else(action: str) -> None:
    kind, allowed = STATEMENT[action]
    for who, situation in product(WHO, SITUATIONS[kind]):
        verdict = judged([WHO[who]], action, SITUATIONS[kind][situation])
        cell = (who, situation, verdict.reason)
        assert verdict.is_allowed == (situation in allowed.get(who, ())), cell
        assert verdict.reason, cell


def rpcs() -> set[str]:
    """What is served by gRPC."""
    modules = (
        *(ingest_service_pb2, placement_service_pb2, energy_service_pb2, watch_service_pb2),
        *(history_service_pb2, webhook_service_pb2),
    )
    services = [
        service for module in modules for service in module.DESCRIPTOR.services_by_name.values()
    ]
    return {method.name for service in services for method in service.methods} - {*_WAYS_IN}


def test_every_payload_and_every_rpc_has_a_rule_and_a_line_of_the_statement() -> None:
    payloads = {field.name for field in Envelope.DESCRIPTOR.oneofs_by_name["payload"].fields}
    assert payloads == set(KINDS)
    assert set(RULES) == payloads | rpcs()
    assert set(STATEMENT) == set(RULES), "state in _LINES who may send it"
    orders = {name for name, message in PAYLOADS.items() if rule_of(message).is_order}
    assert orders == {
        *("job_cancelled", "job_held", "job_released", "job_requeue_asked", "job_seized"),
        *("job_suspended", "job_resumed", "job_prioritized"),
    }


@given(st.text(max_size=20).filter(lambda name: name not in RULES), st.sampled_from([*WHO]))
def test_what_no_rule_names_is_nobodys(action: str, who: str) -> None:
    assert not judged([WHO[who]], action, About(is_region=True)).is_allowed


@given(st.sampled_from(CELLS))
def test_whom_the_table_does_not_name_may_nothing(cell: tuple[str, str, str]) -> None:
    action, _, situation = cell
    assert not judged([], action, SITUATIONS[STATEMENT[action][0]][situation]).is_allowed


@given(st.lists(st.sampled_from([*WHO]), max_size=4), st.sampled_from(CELLS))
def test_bindings_add_up(held: list[str], cell: tuple[str, str, str]) -> None:
    action, _, situation = cell
    about = SITUATIONS[STATEMENT[action][0]][situation]
    alone = [judged([WHO[who]], action, about).is_allowed for who in held]
    assert judged([WHO[who] for who in held], action, about).is_allowed == any(alone)
