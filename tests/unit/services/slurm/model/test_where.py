"""Where jobs of a Slurm may run goes to Coplace, and what Slurm never starts is refused."""

from collections.abc import Mapping
from typing import Any

import pytest
from coplace.v1.placement_pb2 import VERDICT_WITHDRAWN, PlacementDecided

from services.ingest.model import Intake
from services.slurm.model.clusters import NodeHardware, declared_cluster, undeclared
from services.slurm.model.facts import facts_of
from services.slurm.model.jobs import SlurmJob
from services.slurm.processor.orders import Decline, Hold, orders
from shared.catalogue.payloads.domain_types import cluster_of
from shared.catalogue.topics import Topics
from shared.slurm.grant_answer import GrantAnswer
from tests.unit.services.slurm.fields import JOB, NODE, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import TERMS

HARDWARE = NodeHardware("gold-6254", [1.2, 3.1], 110.0, 140.0)
ASKS: Mapping[str, Any] = {
    "partition": "big,small",
    "features": "gpu&(rome|icelake)",
    "required_nodes": "n2",
    "excluded_nodes": "n[7-8]",
}
# As `sinfo --json` of 24.11 shows it.
SHOWN: Mapping[str, Any] = {
    "name": "big",
    "partition": {"state": ["DOWN"]},
    "accounts": {"allowed": "physics,bio"},
    "maximums": {
        "nodes": {"set": True, "infinite": False, "number": 4},
        "time": {"set": True, "infinite": False, "number": 90},
        "shares": 0,
    },
}


def job(**changes: Any) -> SlurmJob:
    return SlurmJob({**JOB, **changes})


def told(of: SlurmJob) -> list[Any]:
    """The payloads, all of which ingest takes."""
    intake = Intake(Topics())
    accepted = [intake.accept(each, SUBMIT_S + 3600.0) for each in facts_of(of, TERMS).told]
    return [each.event.payload for each in accepted]


def test_a_submission_says_where_its_user_wants_it() -> None:
    [submitted] = told(job(**ASKS))
    assert list(submitted.partitions) == ["big", "small"]
    assert submitted.features == "gpu&(rome|icelake)"
    assert (list(submitted.nodes_wanted), list(submitted.nodes_excluded)) == (["n2"], ["n[7-8]"])


def test_nodes_that_a_job_was_released_on_are_no_wish_of_its_user() -> None:
    word = GrantAnswer(3, is_started=True, freq_ghz=2.1, submit_s=SUBMIT_S)
    [submitted] = told(job(required_nodes="n[1-4]", admin_comment=str(word)))
    assert not submitted.nodes_wanted
    kept = word._replace(wanted="n2")
    [submitted] = told(job(required_nodes="n[1-4]", admin_comment=str(kept)))
    assert list(submitted.nodes_wanted) == ["n2"]
    assert job(admin_comment=str(kept)).word == word._replace(submit_s=0)


@pytest.mark.parametrize(
    ("asks", "words"),
    [
        ({"licenses": "a:3|b:1"}, "Coplace can't follow it: licenses: 'a:3|b:1' is not a list"),
        ({"features": "gpu*2"}, "Coplace can't follow it: features: needs a name"),
        ({"features": "a&b|c"}, "Coplace can't follow it: features: needs parentheses"),
    ],
)
def test_a_job_that_asks_for_what_cannot_be_followed_is_held_with_the_reason(
    asks: dict[str, Any], words: str
) -> None:
    [submitted] = told(job(**asks))
    assert not submitted.features
    assert submitted.held_because.startswith(words)


@pytest.mark.parametrize("field", ["reservation", "resv_name"])
def test_licences_and_a_reservation_are_asked_for(field: str) -> None:
    [submitted] = told(job(licenses="matlab:3,ansys", **{field: "school"}))
    assert (dict(submitted.licences), submitted.reservation) == (
        {"matlab": 3, "ansys": 1},
        "school",
    )


def test_a_job_that_runs_is_held_for_nothing() -> None:
    submitted, started = told(job(**RUNS, features="gpu*2"))
    assert (submitted.held_because, type(started).__name__) == ("", "JobStarted")


def test_a_cluster_has_the_partitions_and_features_of_its_nodes() -> None:
    nodes = [
        {**NODE, "name": "n1", "partitions": ["small"], "features": "rome,ib"},
        {**NODE, "name": "n2", "partitions": ["small", "big"], "features": ["rome", "a b"]},
    ]
    found = declared_cluster(nodes, "alpha", "north", "alpha", HARDWARE, [SHOWN])
    assert [list(each.features) for each in found.node_classes] == [["rome", "ib"], ["rome"]]
    big, small = cluster_of(found).partitions
    assert (big.name, big.nodes, small.nodes) == ("big", ("n2",), ("n[1-2]",))
    assert (big.most_walltime_s, big.most_nodes, big.accounts) == (5400, 4, ("physics", "bio"))
    assert (big.down, big.exclusive, small.down, small.exclusive) == (True, True, False, False)


def test_what_slurm_shows_of_a_partition_may_be_anything() -> None:
    nodes = [{**NODE, "partitions": ["all", 7, ""], "features": 7}]
    odd: Mapping[str, Any] = {"name": "all", "maximums": 7, "partition": None, "accounts": "x"}
    anything: list[list[Mapping[str, Any]]] = [[], [{}], [odd]]
    for shown in anything:
        found = declared_cluster(nodes, "alpha", "north", "alpha", HARDWARE, shown)
        assert [each.name for each in found.partitions] == ["all"]


def test_a_start_that_slurm_never_makes_is_declined_with_its_nodes() -> None:
    withdrawn = PlacementDecided(verdict=VERDICT_WITHDRAWN, grant=1)
    stuck = job(required_nodes="n[1-2]", state_reason="BadConstraints")
    hold, decline = orders(withdrawn, stuck, SUBMIT_S * 1_000_000)
    assert hold == Hold(GrantAnswer(1))
    assert decline == Decline("as asked, Slurm says BadConstraints", ["n[1-2]"])
    busy = job(required_nodes="n[1-2]", state_reason="Resources")
    assert orders(withdrawn, busy, 0)[1] == Decline("as asked")


def test_nodes_of_many_kinds_are_declared_in_as_many_classes_as_there_are() -> None:
    nodes = [{**NODE, "name": f"n{n}", "features": "ab"[n % 2]} for n in range(100)]
    found = declared_cluster(nodes, "alpha", "north", "alpha", HARDWARE)
    assert [(each.nodes, *each.features) for each in found.node_classes] == [(50, "a"), (50, "b")]
    assert list(cluster_of(found).names().declared[:2]) == ["n0", "n2"]


def most_of(limits: Mapping[str, Any], accounts: str = "") -> Any:
    """What is declared of a partition, which ingest takes."""
    shown = {**SHOWN, "maximums": limits, "accounts": {"allowed": accounts}}
    nodes = [{**NODE, "name": "n1", "partitions": ["big"]}]
    found = declared_cluster(nodes, "alpha", "north", "alpha", HARDWARE, [shown])
    [partition] = cluster_of(found).partitions
    return partition, list(undeclared(nodes, [shown], found))


def test_limits_of_a_partition_beyond_what_can_be_declared_are_none() -> None:
    partition, _ = most_of({"time": 2 * 366 * 24 * 60, "nodes": 2**32 - 2})
    assert (partition.most_walltime_s, partition.most_nodes) == (0, 0)


def test_a_partition_for_more_accounts_than_can_be_declared_is_for_all_and_that_is_noted() -> None:
    accounts = [f"a{number}" for number in range(257)]
    assert len(most_of({}, ",".join(accounts[:256]))[0].accounts) == 256
    partition, noted = most_of({}, ",".join(accounts))
    assert (partition.accounts, noted) == ((), ["accounts of partition big: more than 256"])


def test_a_node_of_many_features_has_the_first_ones() -> None:
    features = ",".join(f"f{number:02}" for number in range(65))
    nodes = [{**NODE, "features": features}]
    found = declared_cluster(nodes, "alpha", "north", "alpha", HARDWARE)
    assert cluster_of(found).node_classes[0].features == tuple(features.split(",")[:64])
    [noted] = undeclared(nodes, [], found)
    assert noted.endswith(": f64")


def test_of_nodes_of_too_many_kinds_the_features_of_whole_partitions_are_declared() -> None:
    nodes = [
        {**NODE, "name": f"n{n}", "features": f"own{n},{'ab'[n % 2]}", "partitions": ["xy"[n % 2]]}
        for n in range(100)
    ]
    found = declared_cluster(nodes, "alpha", "north", "alpha", HARDWARE)
    cluster_of(found)
    assert [(each.nodes, *each.features) for each in found.node_classes] == [(50, "a"), (50, "b")]
    [noted] = undeclared(nodes, [], found)
    assert ": own0, own1, own10, " in noted


def test_nodes_of_too_many_sizes_are_declared_without_features_and_with_less_memory() -> None:
    nodes = [
        {**NODE, "name": f"n{n}", "features": "x", "partitions": [f"p{n}"], "real_memory": mib}
        for n, mib in enumerate(range(130_000, 130_100))
    ]
    found = declared_cluster(nodes, "alpha", "north", "alpha", HARDWARE)
    cluster_of(found)
    assert [(each.nodes, each.memory_gib) for each in found.node_classes] == [(100, 64.0)]
