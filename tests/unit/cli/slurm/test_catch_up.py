"""Accounts beside charges: what is missing is published, and each difference is a row."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from coplace.v1.jobs_pb2 import JobFinished
from coplace.v1.pricing_pb2 import ChargeMade

from cli.slurm.catch_up import Charged, differences
from shared.slurm.clusters import ClusterMap
from shared.slurm.facts import Site
from shared.slurm.sacct import SacctRun, runs
from tests.unit.shared.slurm.three_ways import T0_S, Stretch, TrueRun

SITE = Site("north", "none", "m0", "alpha")
JOB = f"north/alpha/9/{T0_S}"
TIMES_US = range(T0_S * 1_000_000, (T0_S + 7_200) * 1_000_000)


def ended(**changes: Any) -> SacctRun:
    """A run of two cores and nine seconds."""
    [run] = runs(TrueRun([Stretch("n1", 2, 9)], **changes).sacct())
    return run


def charge(core_s: float, revision: int = 1, **changes: Any) -> ChargeMade:
    end = JobFinished(ended_at_us=(T0_S + 19) * 1_000_000)
    values: Mapping[str, Any] = {"job_id": JOB, "cluster": "alpha", "finished": end, **changes}
    return ChargeMade(revision=revision, cores=2, runtime_s=core_s / 2, **values)


def rows(*charges: ChargeMade, found: list[SacctRun] | None = None) -> list[tuple[object, ...]]:
    charged = Charged.of_slurm(charges, SITE, TIMES_US)
    known = [ended()] if found is None else found
    shown = [each.row() for _, each in differences(known, charged, SITE)]
    return [tuple(row.values()) for row in shown]


def test_a_run_whose_last_revision_has_its_core_time_is_no_difference() -> None:
    assert rows(charge(18)) == []
    assert rows(charge(18, 2), charge(20)) == []


def test_each_difference_is_a_row() -> None:
    assert rows() == [(JOB, "not charged", 18, None)]
    assert rows(charge(20)) == [(JOB, "other core time", 18, 20.0)]
    assert rows(charge(18), found=[]) == [(JOB, "not in the accounts", None, 18.0)]


def test_a_run_of_which_accounts_missed_the_start_is_charged_as_it_was_seen() -> None:
    [row] = TrueRun([Stretch("n1", 2, 9)], state="REQUEUED").sacct()
    missed = SacctRun({**row, "time": {**row["time"], "start": None, "elapsed": 0}})
    assert rows(charge(18), found=[missed]) == []
    assert rows(found=[missed]) == []


def test_charges_of_other_slurms_and_times_are_not_compared() -> None:
    late = JobFinished(ended_at_us=TIMES_US.stop)
    others = charge(20, job_id=JOB.replace("alpha", "beta")), charge(20, finished=late)
    assert rows(*others) == [(JOB, "not charged", 18, None)]


def test_a_slurm_may_be_several_clusters_and_its_jobs_may_run_on_others() -> None:
    assert rows(charge(18, cluster="gold")) == []
    assert rows(charge(18, cluster="gold"), found=[]) == []


def test_what_was_charged_on_a_cluster_of_the_slurm_must_be_in_its_accounts() -> None:
    site = replace(SITE, clusters=ClusterMap("gold", node_models={"gold": "m0"}))
    for cluster, left in (("gold", 1), ("alpha", 1), ("beta", 0)):
        charged = Charged.of_slurm([charge(18, cluster=cluster)], site, TIMES_US)
        assert len(list(differences([], charged, site))) == left


def test_what_never_had_nodes_needs_no_charge() -> None:
    never = list(runs(TrueRun([]).sacct()))
    assert (len(never), rows(found=never), rows(charge(0), found=[])) == (1, [], [])


def test_a_row_without_an_id_is_a_difference_and_ends_nothing() -> None:
    nameless = SacctRun({**ended().fields, "job_id": None})
    [row] = rows(charge(18), found=[nameless, ended()])
    assert "has no id: jobid" in str(row[1])
