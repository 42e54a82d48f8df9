"""What is missing beside a Slurm is named, with what to do."""

import pytest

from services.slurm.model.clusters import ClusterShare, NodeHardware
from services.slurm.processor.checks import (
    of_config,
    of_jobs,
    of_limits,
    of_nodes,
    of_order,
    of_silence,
)
from tests.unit.services.slurm.fields import NODE

GOOD = {
    "SLURM_VERSION": "24.11.5",
    "JobSubmitPlugins": "lua",
    "TaskProlog": "/etc/slurm/task_prolog.sh",
    "MinJobAge": "86400 sec",
    "MaxJobCount": "100000",
    "SchedulerParameters": "batch_sched_delay=0,bf_interval=2",
    "SlurmUser": "slurm(64030)",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CORE_MEMORY",
}
HARDWARE = NodeHardware("gold-6254", [2.0], 90.0, 140.0)


def test_a_slurm_that_is_set_up_lacks_nothing() -> None:
    found = list(of_config(GOOD, "slurm"))
    assert all(each.is_good for each in found)
    assert "ok       SelectType=select/cons_tres: jobs get single cores" in map(str, found)


def test_slurm_that_keeps_ends_in_files_may_forget_them_soon() -> None:
    kept = {**GOOD, "JobCompType": "jobcomp/lua", "MinJobAge": "300 sec"}
    assert all(each.is_good for each in of_config(kept, "slurm"))


@pytest.mark.parametrize(
    ("changes", "user", "words"),
    [
        ({"JobSubmitPlugins": "(null)"}, "slurm", "set JobSubmitPlugins=lua"),
        ({"TaskProlog": "(null)"}, "slurm", "set TaskProlog"),
        ({"MinJobAge": "300 sec"}, "slurm", "set JobCompType=jobcomp/lua, or MinJobAge=86400"),
        ({"SchedulerParameters": "(null)"}, "slurm", "add bf_interval=1"),
        ({"MaxJobCount": "10000"}, "slurm", "set MaxJobCount above 10000: jobs that ended count"),
        ({}, "ada", "run the process as slurm or root"),
    ],
)
def test_what_is_missing_is_named(changes: dict[str, str], user: str, words: str) -> None:
    [missing] = [each for each in of_config({**GOOD, **changes}, user) if not each.is_good]
    assert words in str(missing)
    assert str(missing).startswith("MISSING")


@pytest.mark.parametrize(
    ("silent_s", "timer", "missing"),
    [
        (12.0, "active", []),
        (120.0, "active", ["Coplace spoke 120 s ago"]),
        (None, "inactive", ["Coplace spoke never", "coplace-slurm-fallback.timer is inactive"]),
    ],
)
def test_what_starts_jobs_in_silence_is_looked_at(
    silent_s: float | None, timer: str, missing: list[str]
) -> None:
    found = of_silence(silent_s, timer)
    assert [each.what for each in found if not each.is_good] == missing


def test_nodes_that_are_of_no_cluster_or_unlike_are_named() -> None:
    nodes = [{**NODE, "name": "n1"}, {**NODE, "name": "n2", "cpus": 64}, {**NODE, "name": "n3"}]
    shares = [
        ClusterShare("gold", HARDWARE, nodes=frozenset({"n1", "n2"})),
        ClusterShare("rome", HARDWARE, nodes=frozenset({"n9"})),
    ]
    found = [str(each) for each in of_nodes(nodes, shares) if not each.is_good]
    assert len(found) == 3
    assert "gold has nodes of 36, 64 cores" in found[0]
    assert "1 nodes of no cluster: name them in the file of clusters" in found[2]


@pytest.mark.parametrize(("jobs", "is_good"), [(0, True), (50_000, True), (50_001, False)])
def test_more_jobs_than_half_of_what_slurm_takes_are_named(jobs: int, is_good: bool) -> None:
    [piece] = of_jobs(GOOD, jobs)
    assert piece.is_good is is_good
    assert f"{jobs} jobs of MaxJobCount=100000" in str(piece)
    assert [each.is_good for each in of_jobs({}, jobs)] == [True]


def test_what_slurm_orders_jobs_by_and_is_not_known_is_missing() -> None:
    multifactor = {**GOOD, "PriorityType": "priority/multifactor"}
    assert [str(each) for each in of_order(multifactor, {})] == [
        "ok       PriorityType=priority/multifactor"
    ]
    [_, missing] = of_order(multifactor, {"fair share": "without slurmdbd there are none"})
    assert str(missing).startswith("MISSING  fair share in Slurm's order: without slurmdbd")
    [basic] = of_order({**GOOD, "PriorityType": "priority/basic"}, {})
    assert str(basic) == "ok       PriorityType=priority/basic: jobs go by their numbers"


def test_limits_are_counted_where_slurm_enforces_them() -> None:
    accounts = {"AccountingStorageType": "accounting_storage/slurmdbd"}
    enforced = {**GOOD, **accounts, "AccountingStorageEnforce": "limits"}
    [found] = of_limits(enforced, 3)
    assert str(found) == "ok       AccountingStorageEnforce=limits: 3 limits are declared"
    [none] = of_limits({**GOOD, "AccountingStorageEnforce": "none"}, 0)
    assert none.is_good
    assert "no limits" in str(none)
