"""Rows of the version before are read, written out here by hand: whatever fields their types have
gained since."""

from math import inf
from typing import Any

import msgspec
from coplace.v1.jobs_pb2 import JobSubmitted

from services.prediction.state import Remembered
from services.pricing.state import Attempts
from shared.domain.cluster import Cluster, NodeClass
from shared.domain.job import Job, JobState
from shared.placement.state.holds import Holder
from shared.placement.state.job_record import JOBS, GuaranteeState
from shared.placement.state.silent_managers import SilentManagers
from shared.streams.state.state import State, key_of

NOTHING: list[Any] = []


def row(version: int, *values: Any) -> bytes:
    """The bytes of a row."""
    return b"\xc1" + bytes([version]) + msgspec.msgpack.encode(values)


def test_jobs_of_the_version_before_are_read_by_prediction() -> None:
    asked = ("a", 2, "cfd", "ada", "hpc", 3, 60.0, "p1", True, 1.0, 5, 8.0, ["arm"])
    of_units = (2, 0.0, [["gpu", 1]], 4)
    when = (0.0, 0.0, False, "", "", NOTHING)
    where = ("", NOTHING, NOTHING, NOTHING, "p1", "", "")
    as_one = ("", 0, "", 0, 0, NOTHING, NOTHING, 7, True, 60.0, 1_500)
    state = State({key_of("job", "a"): row(3, *asked, *of_units, *when, *where, *as_one)})
    assert Remembered(state).jobs["a"] == Job(
        job_id="a",
        attempt=2,
        app_id="cfd",
        user="ada",
        account="hpc",
        nodes=3,
        walltime_s=60.0,
        reference_cluster="p1",
        shareable=True,
        submit_s=1.0,
        priority=5,
        memory_gib=8.0,
        architectures=("arm",),
        cores_per_unit=2,
        resources_per_unit=(("gpu", 1),),
        units_per_node=4,
        home_cluster="p1",
        manager_priority=7,
        is_interactive=True,
        starts_within_s=60.0,
        millicores_per_unit=1_500,
    )


def test_clusters_of_the_version_before_are_read_by_prediction() -> None:
    declared = ("p1", "site", "genoa", 8, 64, [2.0, 3.0], 90.0, 400.0, 256.0, "x86_64")
    # What lies within a row goes by names, of which one came since.
    classes = [{"nodes": 8, "memory_gib": 256.0, "resources": [], "tdp_w": [], "features": ["a"]}]
    of_before = row(3, *declared, NOTHING, classes, 600.0, 280.0, NOTHING, True)
    state = State({key_of("cluster", "p1"): of_before})
    assert Remembered(state).clusters["p1"] == Cluster(
        name="p1",
        site="site",
        node_model="genoa",
        nodes=8,
        cores_per_node=64,
        pstates_ghz=(2.0, 3.0),
        idle_power_w=90.0,
        peak_bandwidth_gbps=400.0,
        memory_gib_per_node=256.0,
        architecture="x86_64",
        declared_classes=(NodeClass(8, 256.0, features=("a",)),),
        nameplate_power_w=600.0,
        processors_tdp_w=280.0,
        shares_unpredicted=True,
    )


def test_attempts_of_the_version_before_are_read_by_pricing() -> None:
    submitted = JobSubmitted(job_id="a", attempt=1, account="hpc")
    known = ("a", 1, "submitted", submitted.SerializeToString(), None, "trace", 1, 20, 30, False)
    charged = (70, [["hpc", 50]], "2026", 2, True, False)
    state = State({key_of("attempt", "a|1"): row(1, *known, *charged)})
    [found] = Attempts(state)
    assert (found.state, found.submitted) == (JobState.SUBMITTED, submitted)
    assert (found.charge_due_us, found.forget_due_us, found.reserved_micro_su) == (20, 30, 70)
    assert (found.charged, found.tariff, found.tariff_version) == ((("hpc", 50),), "2026", 2)
    assert (found.node_failed, found.requeued, found.ran) == (True, False, None)


def test_words_of_managers_of_the_version_before_are_in_force() -> None:
    words = (["slurm", 5, 7.0, 30.0], ["other", 3, None, 60.0])
    state = State({key_of("managers", "alpha"): row(1, *words)})
    managers = SilentManagers(state, lambda: ("alpha",))
    assert list(managers.due_s()) == [inf]
    managers.begin_round(100.0)
    assert [round(each) for each in managers.due_s()] == [160]


def test_holds_of_the_version_before_are_read_by_placement_as_of_users() -> None:
    asked = {"job_id": "a", "attempt": 1, "app_id": "cfd", "user": "ada", "account": "hpc"}
    asked |= {"nodes": 1, "walltime_s": 60.0, "reference_cluster": "p1", "shareable": False}
    life = ["submitted", 9.0, True, 0.5, NOTHING, 3, "node failed", 2.0, 8.0]
    evaluated, grants = [4, True, NOTHING], [2, None, False, 1, NOTHING, NOTHING, 5]
    never = [0, ""]
    requests = ["", None, [1, "e"], False, None, never, None, never, never]
    run, guarantee = [None, "", NOTHING, 0, 0, NOTHING], [0.5, GuaranteeState.UNMEASURED.value]
    records = life, evaluated, grants, requests, run, guarantee, [0, "", 0.0]
    found = JOBS.decode(row(3, asked | {"submit_s": 1.0}, 7, "trace", *records))
    assert (found.job.user, found.arrival, found.traceparent) == ("ada", 7, "trace")
    assert (found.life.ended_s, found.life.requeued_because) == (9.0, "node failed")
    assert (found.life.requeues, found.life.started_s) == (3, 2.0)
    assert (found.evaluated.update, found.grants.declined, found.requests.held) == (4, 5, "")
    assert found.requests.holds == ((Holder.USER, (1, "e"), ""),)
    assert found.requests.priority_asked == (0, "")
