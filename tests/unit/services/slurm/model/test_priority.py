"""The priority of a held job is the one that Slurm would give it.

What it is compared with on a real Slurm is in tests/integration/test_slurm_order.py."""

from typing import Any

import pytest

from services.slurm.model.jobs import SlurmJob
from services.slurm.model.order_records import (
    associations_of,
    fair_shares_of,
    partitions_of,
    qos_of,
    size_of,
)
from services.slurm.model.priority import (
    MOST,
    Association,
    PartitionTerms,
    PriorityRules,
    QueueTerms,
    duration_s,
    priority,
    waits_since_s,
    whole,
)
from tests.unit.services.slurm.fields import JOB, SUBMIT_S

HOUR_S = 3_600
CONFIG = {
    "PriorityType": "priority/multifactor",
    "PriorityMaxAge": "01:00:00",
    "PriorityWeightAge": "100000",
    "PriorityWeightAssoc": "7000",
    "PriorityWeightFairShare": "1000000",
    "PriorityWeightJobSize": "50000",
    "PriorityWeightPartition": "20000",
    "PriorityWeightQOS": "30000",
    "PriorityWeightTRES": "CPU=1000,Mem=2000",
    "PriorityFavorSmall": "No",
    "PriorityFlags": "",
}
PARTITIONS = {
    "all": PartitionTerms(1, 10, tres={"cpu": 32.0, "mem": 16 * 2.0**30, "node": 4.0}),
    "fast": PartitionTerms(5, 40, tres={"cpu": 16.0, "mem": 8 * 2.0**30, "node": 2.0}),
}


def terms(**config: str) -> QueueTerms:
    return QueueTerms(
        PriorityRules.of_config({**CONFIG, **config}),
        PARTITIONS,
        nodes=4,
        cpus=32,
        fair_shares={Association("physics", "ada"): 1.0, Association("chem", "ada", "fast"): 0.5},
        associations={Association("physics", "ada"): 4, Association("chem", "ada"): 2},
        qos={"normal": 0, "low": 10, "high": 50},
    )


def job(**fields: Any) -> SlurmJob:
    size = "cpu=1,mem=4G,node=1,billing=1"
    known = {"account": "physics", "qos": "normal", "tres_req_str": size, "partition": "all"}
    return SlurmJob({**JOB, **known, **fields})


def test_all_factors_times_their_weights_are_summed_as_a_real_slurm_22_05_shows_them() -> None:
    # Job 8 of that Slurm in its two partitions, with an association that has a priority.
    both = job(partition="fast,all", qos="high", account="physics")
    in_all = 1_000_000 + 7_000 + 7_031.25 + 5_000 + 30_000 + 31.25 + 500
    assert priority(both, "all", terms(), 0) == pytest.approx(in_all)
    in_fast = 1_000_000 + 7_000 + 7_031.25 + 20_000 + 30_000 + 62.5 + 1_000
    assert priority(both, "fast", terms(), 0) == pytest.approx(in_fast)


def test_age_counts_up_to_the_most() -> None:
    young, old = (priority(job(), "all", terms(), age_s) for age_s in (0, HOUR_S / 4))
    assert old - young == pytest.approx(25_000)
    oldest = priority(job(), "all", terms(), 30 * HOUR_S)
    assert oldest - young == pytest.approx(100_000)
    assert priority(job(), "all", terms(PriorityMaxAge="00:00:00"), 0) == pytest.approx(oldest)


@pytest.mark.parametrize("nice", [-1_000, {"set": True, "number": -1_000}, 2**32 - 1_000])
def test_a_nice_value_below_0_is_added_in_each_form_of_it(nice: Any) -> None:
    plain = priority(job(), "all", terms(), 0)
    assert priority(job(nice=nice), "all", terms(), 0) == pytest.approx(plain + 1_000)
    assert priority(job(nice=500), "all", terms(), 0) == pytest.approx(plain - 500)
    assert SlurmJob({**JOB, "nice": nice}).priority == 100


@pytest.mark.parametrize(
    ("of", "size"),
    [
        ({}, 0.140625),
        ({"tres_req_str": "cpu=3,mem=12G,node=3", "cpus": None}, 0.421875),
        ({"tres_req_str": "cpu=12,mem=1200M,node=1", "node_count": 2, "cpus": 12}, 0.3125),
        ({"tres_req_str": "cpu=1,mem=8G,node=2", "node_count": 4}, 0.3125),
        ({"shared": "none"}, 0.25),
        ({"tres_req_str": ""}, 0.140625),
        ({"tres_req_str": "node=9", "cpus": 99}, 1.0),
    ],
)
def test_a_job_is_as_large_as_its_nodes_and_cpus_are_of_all(
    of: dict[str, Any], size: float
) -> None:
    only = dict.fromkeys(
        (name for name in CONFIG if "Weight" in name and "JobSize" not in name), "0"
    )
    assert priority(job(**of), "all", terms(**only), 0) == pytest.approx(50_000 * size)
    small = priority(job(**of), "all", terms(**only, PriorityFavorSmall="Yes"), 0)
    assert small == pytest.approx(50_000 * (1 - size))
    relative = terms(**only, PriorityFlags="SMALL_RELATIVE_TO_TIME")
    if not of:  # a node of four for five minutes
        assert priority(job(), "all", relative, 0) == pytest.approx(50_000 * 8 / 5 / 32)


def test_factors_are_taken_as_they_are_where_flags_say_so() -> None:
    only = dict.fromkeys((name for name in CONFIG if "Weight" in name), "0")
    raw = {**only, "PriorityFlags": "NO_NORMAL_ALL"}
    high = job(qos="high")
    assert priority(high, "all", terms(**{**raw, "PriorityWeightQOS": "3"}), 0) == 150
    assert priority(high, "fast", terms(**{**raw, "PriorityWeightPartition": "2"}), 0) == 80
    assert priority(high, "all", terms(**{**raw, "PriorityWeightAssoc": "2"}), 0) == 8
    assert priority(high, "all", terms(**{**raw, "PriorityWeightTRES": "CPU=7"}), 0) == 7
    in_mib = terms(**{**raw, "PriorityWeightTRES": "Mem=2"})
    assert priority(high, "all", in_mib, 0) == 8_192


def test_flags_that_slurm_shows_as_one_are_those_of_slurm_conf() -> None:
    shown = PriorityRules.of_config({"PriorityFlags": "NO_NORMAL_ALL"})
    assert shown.is_raw("TRES")
    said = shown.with_flags_of("#PriorityFlags=x\n  priorityflags = no_normal_qos,Incr_Only # y\n")
    assert (said.is_raw("TRES"), said.is_raw("QOS"), said.only_grows) == (False, True, True)
    assert shown.with_flags_of("ClusterName=alpha").is_raw("TRES")


def test_an_association_of_the_partition_counts_before_that_of_the_user() -> None:
    fair = dict.fromkeys((name for name in CONFIG if "Weight" in name), "0")
    fair["PriorityWeightFairShare"] = "1000"
    chem = job(account="chem")
    assert priority(chem, "fast", terms(**fair), 0) == 500
    assert priority(chem, "all", terms(**fair), 0) == 0


@pytest.mark.parametrize("of", [{"user_name": "bob"}, {"account": ""}, {"user_name": None}])
def test_who_is_not_known_to_the_accounts_has_no_fair_share(of: dict[str, Any]) -> None:
    assert priority(job(**of), "all", terms(), 0) == pytest.approx(12_562.5)


def test_what_is_beyond_32_bits_or_below_1_is_cut() -> None:
    huge = terms(PriorityWeightFairShare="4294967295", PriorityWeightAge="4294967295")
    assert whole(priority(job(), "all", huge, HOUR_S)) == MOST
    assert whole(priority(job(nice=2**31 - 1), "all", terms(), 0)) == 1
    assert whole(0.99) == 1
    assert whole(1.99) == 1


@pytest.mark.parametrize(
    ("of", "since_s"),
    [
        ({}, SUBMIT_S),
        ({"eligible_time": SUBMIT_S + 60}, SUBMIT_S + 60),
        ({"eligible_time": SUBMIT_S + 60, "accrue_time": SUBMIT_S + 90}, SUBMIT_S + 90),
        ({"dependency": "afterok:1(unfulfilled)"}, 0),
        # It was released, and held again: it waits since it was submitted.
        ({"eligible_time": SUBMIT_S + 60, "admin_comment": "coplace grant=2 declined"}, SUBMIT_S),
    ],
)
def test_a_job_becomes_older_since_it_may_start(of: dict[str, Any], since_s: int) -> None:
    assert waits_since_s(job(**of), terms().rules) == since_s
    always = terms(PriorityFlags="ACCRUE_ALWAYS,FAIR_TREE").rules
    assert waits_since_s(job(**of), always) == SUBMIT_S


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("7-00:00:00", 604_800), ("01:00:00", 3_600), ("UNLIMITED", 0), ("", 0), ("1:2", 0)],
)
def test_times_are_read_as_slurm_writes_them(said: str, seconds: int) -> None:
    assert duration_s(said) == seconds


def test_rules_that_nobody_can_read_have_no_weight() -> None:
    rules = PriorityRules.of_config({"PriorityWeightAge": "much", "PriorityWeightTRES": "(null)"})
    assert (rules.is_multifactor, rules.age, rules.tres, rules.growth_per_s) == (False, 0, {}, 0)


def test_what_commands_say_is_read_row_by_row_whatever_names_there_are() -> None:
    rows = [
        ["root", "", "", ""],
        [" chem", "da", "da", "", "0.250000"],
        ["  chem", "ada", "fast", "0.500000"],
        ["chem", "bob", "", "inf"],
        ["chem"],
        ["chem", "\udcff\n", "", "0.1"],
    ]
    assert fair_shares_of(rows) == {
        Association("chem", "da|da"): 0.25,
        Association("chem", "ada", "fast"): 0.5,
        Association("chem", "\udcff"): 0.1,
    }
    assert qos_of([["normal", "0"], ["a|b", "x"], [""], ["high", "50"]])["high"] == 50
    records = [{"PartitionName": "all", "PriorityTier": "x", "MaxTime": "UNLIMITED"}, {}]
    assert partitions_of(records) == {"all": PartitionTerms()}
    assert size_of([{"NodeName": "n1", "CPUTot": "8"}, {"NodeName": "n2"}, {}]) == (2, 8)


def test_a_priority_of_an_account_is_that_of_those_below_it() -> None:
    rows = [
        ["root", "", "", "", ""],
        ["chem", "", "", "7", "root"],
        ["lab", "", "", "", "chem"],
        ["lab", "ada", "", "", ""],
        ["lab", "bob", "", "0", ""],
        # No tree has a circle, and nobody waits for one that has.
        ["x", "", "", "", "y"],
        ["y", "", "", "", "x"],
        ["x", "eve", "", "", ""],
    ]
    found = associations_of(rows)
    assert found[Association("lab", "ada")] == 7
    assert found[Association("lab", "bob")] == 0
    assert found[Association("x", "eve")] == 0
