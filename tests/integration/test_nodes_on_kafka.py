"""What operators say is followed, over gRPC, with ingest and placement as processes on real Kafka:
an impossible job is rejected, drained nodes get no job, a new cluster is seen by jobs that wait,
what is declared of the policy decides from the next round on, and what is pushed of energy is
evaluated."""

import shlex
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from coplace.v1.control_pb2 import ManagerAlive, Partition
from coplace.v1.jobs_pb2 import JobRequeued, JobStarted

from cli.speaking import OPERATOR, who_does_it
from coplace_client import facts
from deploy.local.servers import LocalServers
from tests.support.placement_region import Region, cluster, job
from tests.support.snippets import HOW_TO, blocks, write_programs

# Whose words commands are without a certificate.
_WHO = who_does_it(OPERATOR)


def _has(words: str, told: str) -> bool:
    return words in told


@pytest.fixture(scope="module")
def region(servers: LocalServers) -> Iterator[Region]:
    found = Region(servers, "nodes")
    yield found
    found.close()


def test_clusters_and_nodes_come_and_go(region: Region) -> None:
    region.tell(cluster_declared=cluster("alpha"))
    region.until(lambda told: "| alpha" in told, "nodes")

    impossible, runs, waits = job(1, 5), job(2, 3), job(3, 4)
    region.tell(job_submitted=impossible)
    told = region.until(lambda told: "is rejected" in told, "why", impossible.job_id)
    assert "why: fits on no cluster: alpha: needs 5 nodes, the cluster has 4" in told

    drained = region.coplace("drain", "alpha", "alpha-0000", "--reason", "a fan is broken")
    told = "drained alpha-0000 of alpha: `coplace resume alpha alpha-0000` ends it\nin force since "
    assert drained.startswith(told)
    shown = region.until(lambda told: "drained" in told, "nodes", "alpha")
    assert "a fan is broken" in " ".join(shown.replace("|", " ").split())

    region.tell(job_submitted=runs)
    region.until(lambda told: "is to start" in told, "why", runs.job_id)
    csv = region.coplace("nodes", "alpha", "--output", "csv").splitlines()
    assert csv[1].startswith(f"alpha,alpha-0000,1,drained,,a fan is broken,{_WHO},")
    assert csv[2] == f"alpha,alpha-[0001-0003],3,allocated,{runs.job_id},,,"

    region.tell(job_submitted=waits)
    told = region.until(lambda told: " waits" in told, "why", waits.job_id)
    assert "alpha: 1 of 4 nodes are drained" in told
    region.tell(cluster_declared=cluster("beta"))
    told = region.until(lambda told: "is to start" in told, "why", waits.job_id)
    assert "on 4 nodes of beta" in told

    region.kill_placement()
    region.until(lambda told: "a fan is broken" in told, "nodes", "alpha", "--output", "csv")
    region.coplace("resume", "alpha", "alpha-0000")
    region.until(lambda told: "drained" not in told and "idle" in told, "nodes", "alpha")

    nodes = [f"alpha-{index:04}" for index in (1, 2, 3)]
    now_us = time.time_ns() // 1000
    started = JobStarted(
        job_id=runs.job_id,
        attempt=1,
        cluster="alpha",
        nodes=nodes,
        started_at_us=now_us,
        grant=1,
    )
    requeued = JobRequeued(
        job_id=runs.job_id,
        attempt=2,
        reason="NODE_FAIL",
        requeued_at_us=now_us + 1,
        cluster="alpha",
        failed_nodes=["alpha-0002"],
    )
    region.tell(job_started=started)
    region.tell(job_requeued=requeued)
    by_itself = "failed 1 times within 24 h"
    told = region.until(lambda told: by_itself in told, "nodes", "alpha", "--output", "csv")
    assert ",placement," in told

    region.coplace("undeclare", "beta", "--reason", "sold")
    told = region.until(lambda told: "beta: nothing starts there" in told, "nodes")
    assert f"undeclared by {_WHO} since" in told


def test_nodes_are_reserved_and_maintained_and_jobs_say_what_they_wait_for(region: Region) -> None:
    region.tell(cluster_declared=cluster("rho"))
    region.until(lambda told: "| rho" in told, "nodes")
    now = "--from", "now", "--for", "2hours"
    maintained = region.coplace("reservation", "set", "rho", "fans", "--node", "rho-0003", *now)
    assert "placement now has: fans of rho: rho-0003 (1 nodes, 0 of them allocated)" in maintained
    later = "--from", "now+1hour", "--for", "9hours", "--user", "ada"
    reserved = region.coplace("reservation", "set", "rho", "course", "--count", "1", *later)
    assert "course of rho: rho-0000 (1 nodes, 0 of them allocated)" in reserved

    there: dict[str, Any] = {"reference_cluster": "rho", "clusters": ["rho"]}
    whole = job(30, 4, **there)
    of_course = job(31, 1, reservation="course", **there)
    of_none = job(32, 1, reservation="lecture", **there)
    for each in (whole, of_course, of_none):
        region.tell(job_submitted=each)
    told = region.until(lambda told: " waits" in told, "why", whole.job_id)
    assert "and run into fans from 20" in told
    assert "; course from 20" in told
    told = region.until(lambda told: " waits" in told, "why", of_course.job_id)
    assert "its reservation course begins at 20" in told
    assert "own reservation" in told
    told = region.until(lambda told: " held" in told, "why", of_none.job_id)
    assert "its reservation lecture: no cluster that the job may run on has it" in told

    region.kill_placement()
    listed = region.until(lambda told: "course" in told, "reservation", "list", "rho")
    assert "fans" in listed
    assert "error" not in region.coplace("reservation", "remove", "rho", "fans")
    assert "error" not in region.coplace("reservation", "remove", "rho", "course")
    region.until(lambda told: "is to start" in told, "why", whole.job_id)
    told = region.until(lambda told: " held" in told, "why", of_course.job_id)
    assert "its reservation course: no cluster" in told


def test_jobs_hold_licences_and_say_which_they_wait_for(region: Region) -> None:
    """What is declared and held is kept over a kill."""
    region.tell(cluster_declared=cluster("phi", site="west"))
    region.until(lambda told: "| phi" in told, "nodes")
    declared = region.coplace("licence", "set", "matlab", "3", "--site", "west")
    assert "placement now has: matlab of site west: 3, 0 in use" in declared

    there: dict[str, Any] = {"reference_cluster": "phi", "clusters": ["phi"]}
    first = job(91, 1, licences={"matlab": 2}, **there)
    second = job(92, 1, licences={"matlab": 2}, **there)
    unknown = job(93, 1, licences={"matlab": 1, "ansys": 1}, **there)
    region.tell(job_submitted=first)
    region.until(lambda told: "is to start" in told, "why", first.job_id)
    for each in (second, unknown):
        region.tell(job_submitted=each)
    told = region.until(lambda told: " reserved" in told, "why", second.job_id)
    assert f"needs 2 matlab, 1 of 3 of site west free, held by {first.job_id} (2), until 20" in told
    assert "licences" in told
    told = region.until(lambda told: " held" in told, "why", unknown.job_id)
    assert "no licences of that name are declared for phi" in told

    region.kill_placement()
    listed = region.until(lambda told: "| matlab" in told, "licence", "list", "phi")
    assert f"{first.job_id} (2)" in listed
    assert "error" not in region.coplace("licence", "set", "matlab", "4", "--site", "west")
    region.until(lambda told: "is to start" in told, "why", second.job_id)
    assert "error" not in region.coplace("licence", "set", "ansys", "1", "--region")
    told = region.until(lambda told: " reserved" in told, "why", unknown.job_id)
    assert "0 of 4 of site west free" in told
    assert "error" not in region.coplace("licence", "remove", "matlab", "--site", "west")
    region.until(lambda told: " held" in told, "why", unknown.job_id)


def test_a_silent_manager_and_a_limit_of_a_qos_are_why_jobs_wait(region: Region) -> None:
    """What placement heard is kept over a kill: the manager is silent afterwards too."""
    region.tell(cluster_declared=cluster("tau", nodes=4))
    region.until(lambda told: "| tau" in told, "nodes")
    now_us = time.time_ns() // 1000
    region.tell(
        manager_alive=ManagerAlive(
            manager="slurm of tau", clusters=["tau"], silent_after_s=2, alive_at_us=now_us
        )
    )
    region.until(lambda told: "silent" in told, "clusters")
    own = job(81, 1, clusters=["tau"], home_cluster="tau", reference_cluster="tau")
    free = job(82, 1, clusters=["tau"], reference_cluster="tau", qos="long", user="eve")
    second = job(83, 1, clusters=["tau"], reference_cluster="tau", qos="long", user="eve")
    for each in own, free, second:
        region.tell(job_submitted=each)
    region.kill_placement()
    for each in own, free:
        told = region.until(lambda told: "why: " in told, "why", each.job_id)
        assert "no word from its resource manager, slurm of tau" in told
    set_one = ("limits", "set", "qos", "long", "--each", "user", "--jobs", "1")
    assert "each user of qos long: at most 1 jobs at once" in region.coplace(*set_one)
    now_us = time.time_ns() // 1000
    region.tell(
        manager_alive=ManagerAlive(
            manager="slurm of tau", clusters=["tau"], silent_after_s=3600, alive_at_us=now_us
        )
    )
    for each in own, free:
        region.until(lambda told: "is to start" in told, "why", each.job_id)
    words = "user eve of qos long may run 1 jobs at once"
    region.until(lambda told: words in told, "why", second.job_id)
    assert "silent" not in region.coplace("clusters")


def test_a_limit_of_a_partition_is_why_a_job_waits_and_another_starts_elsewhere(
    region: Region,
) -> None:
    """Who is in which partition is kept over a kill."""
    # Jobs of other tests wait for any cluster.
    only: dict[str, Any] = {"users": ["rhoda"]}
    partitions = [Partition(name="brief", **only), Partition(name="whole", default=True, **only)]
    region.tell(cluster_declared=cluster("sigma", nodes=4, partitions=partitions))
    region.until(lambda told: "| sigma" in told, "nodes")
    set_one = ("limits", "set", "partition", "brief", "--jobs", "1")
    assert "for partition brief: at most 1 jobs at once" in region.coplace(*set_one)
    there: dict[str, Any] = {"clusters": ["sigma"], "reference_cluster": "sigma", "user": "rhoda"}
    first = job(71, 1, partitions=["brief"], **there)
    region.tell(job_submitted=first)
    region.until(lambda told: "is to start" in told, "why", first.job_id)
    region.kill_placement()
    second = job(72, 1, partitions=["brief"], **there)
    either = job(73, 1, partitions=["brief", "whole"], **there)
    for each in second, either:
        region.tell(job_submitted=each)
    words = "partition brief may run 1 jobs at once"
    region.until(lambda told: words in told, "why", second.job_id)
    region.until(lambda told: "is to start" in told, "why", either.job_id)


def test_the_order_of_the_resource_manager_is_why_a_job_has_its_place(region: Region) -> None:
    """What managers said is kept over a kill, and a switch of the policy sorts what waits."""
    region.tell(cluster_declared=cluster("psi", nodes=1))
    region.until(lambda told: "| psi" in told, "nodes")
    there: dict[str, Any] = {"reference_cluster": "psi", "clusters": ["psi"]}
    running, first, second, last = (
        job(number, 1, manager_priority=priority, **there)
        for number, priority in ((61, 9), (62, 3), (63, 2), (64, 0))
    )
    region.tell(job_submitted=running)
    region.until(lambda told: "is to start" in told, "why", running.job_id)
    for each in (last, second, first):
        region.tell(job_submitted=each)
    shown = region.until(lambda told: "waits" in told, "why", first.job_id)
    assert "order: " not in shown
    for line in commands_of(HOW_TO / "own-the-order.md", "policy"):
        assert "error" not in region.coplace(*line)
    shown = region.until(lambda told: "priority, 3" in told, "why", first.job_id)
    assert "1 of 3" in shown
    now_us = time.time_ns() // 1000
    [event] = facts.reordered("north", "slurm of psi", ["psi"], {second.job_id: 52_311}, now_us)
    region.tell(jobs_reordered=event.jobs_reordered)
    shown = region.until(lambda told: "1 of 3" in told, "why", second.job_id)
    assert "order: by its resource manager's priority, 52,311" in shown
    region.kill_placement()
    shown = region.until(lambda told: "priority, 52,311" in told, "why", second.job_id)
    assert "1 of 3" in shown
    shown = region.coplace("why", last.job_id)
    assert "order: by arrival, behind all jobs to which resource managers gave a priority" in shown
    assert "3 of 3" in shown
    assert "error" not in region.coplace("policy", "reset", "order")
    region.until(lambda told: "1 of 3" in told, "why", last.job_id)


def test_an_interactive_job_is_answered_with_its_expected_start(region: Region) -> None:
    region.tell(cluster_declared=cluster("chi", nodes=1))
    region.until(lambda told: "| chi" in told, "nodes")
    there: dict[str, Any] = {"reference_cluster": "chi", "clusters": ["chi"]}
    running = job(95, 1, **there)
    region.tell(job_submitted=running)
    region.until(lambda told: "is to start" in told, "why", running.job_id)
    patient = job(96, 1, is_interactive=True, **there)
    hasty = job(97, 1, is_interactive=True, starts_within_s=60, **there)
    for each in (patient, hasty):
        region.tell(job_submitted=each)
    shown = region.until(lambda told: "waits" in told, "why", patient.job_id)
    assert "expected start: " in shown
    region.kill_placement()
    shown = region.until(lambda told: "rejected" in told, "why", hasty.job_id)
    assert "was to start within 60 s of its submission, and is expected to start 20" in shown


def test_reservations_are_declared_as_the_how_to_says(region: Region) -> None:
    for name in ("p1", "p2"):
        region.tell(cluster_declared=cluster(name, nodes=512))
        region.until(partial(_has, f"| {name}"), "nodes")
    for line in commands_of(HOW_TO / "reserve-nodes.md", "reservation"):
        told = region.coplace(*line)
        assert "error" not in told, (line, told)
    assert "no reservation course" in told


def test_licences_are_declared_as_the_how_to_says(region: Region) -> None:
    region.tell(cluster_declared=cluster("p1", nodes=512))
    region.until(partial(_has, "| p1"), "nodes")
    for line in commands_of(HOW_TO / "licences.md", "licence"):
        told = region.coplace(*line)
        assert "error" not in told, (line, told)
    assert "debugger" in told


def test_the_policy_is_declared_as_the_how_to_says(region: Region) -> None:
    before = region.coplace("policy", "show", "--output", "csv")
    assert "policy,priority-inc-v,priority-inc-v,,,\n" in before
    for line in commands_of(HOW_TO / "operate.md", "policy"):
        told = region.coplace(*line)
        # Nothing is isolated here, which the command sees by what placement shows.
        is_refused = "isolated application" in told
        assert is_refused if line[1] == "allow" else "error" not in told
    reset = f'cap_measures,"lower-frequency,suspend","lower-frequency,suspend",{_WHO},'
    shown = region.until(lambda shown: reset in shown, *_SHOWN)
    assert f"policy,min-energy,priority-inc-v,{_WHO}," in shown
    assert f"most_requeues,3,5,{_WHO}," in shown
    refused = region.coplace("policy", "set", "policy=fifo")
    assert refused.startswith("error: policy: must be one of base, min-runtime")

    region.kill_placement()
    region.until(lambda now: now == shown, *_SHOWN)
    region.tell(cluster_declared=cluster("gamma"))
    decided = job(9, 1)
    region.tell(job_submitted=decided)
    region.until(lambda told: "is to start" in told, "why", decided.job_id)


def test_a_job_that_waits_is_evaluated_by_what_is_pushed(region: Region, tmp_path: Path) -> None:
    write_programs(HOW_TO / "operate.md", tmp_path, "csv")
    region.tell(cluster_declared=cluster("delta", node_model="epyc-9654", architecture="zen4"))
    region.until(lambda told: "| delta" in told, "nodes")
    region.coplace("drain", "delta", "--reason", "it is new")
    region.until(lambda told: "drained" in told, "nodes", "delta")
    waits = job(20, 4, reference_cluster="delta", app_id="solver", architectures=["zen4"])
    region.tell(job_submitted=waits)
    region.until(lambda told: "it is new" in told, "why", waits.job_id)
    files = [str(tmp_path / name) for name in ("epyc-9654_coefficients.csv", "apps.csv")]
    said = region.coplace_on_kafka("energy", "push", *files, "--yes", "--reason", "measured")
    assert "published coefficients of 1 node models, 1 signatures" in said
    assert "| solver      | epyc-9654  | no signature, then 1.2 |" in said
    region.until(lambda told: "| 1.2 " in told, "why", waits.job_id)
    again = region.coplace_on_kafka("energy", "push", *files, "--dry-run")
    assert "they replace coefficients-epyc-9654@" in again
    assert "| application | cluster | runs | W " in region.coplace_on_kafka("energy")


_SHOWN = ("policy", "show", "--output", "csv")


def commands_of(document: Path, verb: str) -> list[list[str]]:
    """The lines of a document that call a command, in words."""
    shell = [block.text for block in blocks(document) if block.is_shell]
    lines = [line for text in shell for line in text.splitlines()]
    found = [line for line in lines if line.startswith(f"coplace {verb} ")]
    return [shlex.split(line, comments=True)[1:] for line in found]
