"""A heterogeneous job of Slurm is one job while it waits, and its parts once they run."""

from collections.abc import Sequence
from typing import Any

import pytest
from coplace.v1.jobs_pb2 import JobSubmitted

from coplace_client.errors import RejectedError
from services.slurm.model.facts import SlurmTerms, facts_of
from services.slurm.model.het_jobs import as_a_whole, lacks_parts, with_gangs
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.limits import limited_by
from services.slurm.model.select_rules import SelectRules
from services.slurm.model.shapes import NodeShapes
from shared.catalogue.contents.check import check_contents
from shared.catalogue.payloads.domain_types import job_of
from shared.slurm.facts import identify
from tests.unit.services.slurm.fields import JOB, RUNS, SUBMIT_S
from tests.unit.services.slurm.region import SITE

NODES = [
    {"name": "n1", "cpus": 4, "sockets": 1, "cores": 4, "partitions": ["small"]},
    {"name": "b1", "cpus": 8, "sockets": 1, "cores": 8, "partitions": ["big"]},
]
TERMS = SlurmTerms(SITE, "alpha", select=SelectRules(shares_nodes=True), shapes=NodeShapes(NODES))


def part(offset: int, **changes: Any) -> SlurmJob:
    """A part of the heterogeneous job 17 of two."""
    own = {"job_id": 17 + offset, "het_job_id": 17, "het_job_offset": offset}
    return SlurmJob({**JOB, **own, "het_job_id_set": "17-18", **changes})


def gang(*parts: SlurmJob) -> SlurmJob:
    [found] = with_gangs(parts)
    return found


def submitted(job: SlurmJob, terms: SlurmTerms = TERMS) -> JobSubmitted:
    """What is published of it, which ingest and placement take."""
    [asked] = facts_of(job, terms).told
    check_contents(asked.job_submitted)
    job_of(asked.job_submitted)
    return asked.job_submitted


def named(jobs: Sequence[SlurmJob]) -> list[str]:
    return [identify(job.message(), SITE).split("/")[2] for job in jobs]


def test_parts_that_wait_are_one_job_with_the_number_of_the_first() -> None:
    other = SlurmJob({**JOB, "job_id": 9})
    shown = [part(1), other, part(0), SlurmJob({**JOB, "job_id": 30})]
    found = with_gangs(shown)
    assert named(found) == ["9", "17", "30"]
    assert [each.job_id for each in found[1].parts] == [17, 18]
    assert (found[1].name_in_slurm, found[1].is_placed) == ("17", True)


def test_parts_that_run_or_have_ended_are_jobs() -> None:
    runs = [part(0, **RUNS), part(1, **RUNS)]
    assert named(with_gangs(runs)) == ["17+0", "17+1"]
    over = [part(0, **RUNS), part(1, **RUNS | {"job_state": "COMPLETED"})]
    assert named(with_gangs(over)) == ["17+0", "17+1"]
    [whole] = as_a_whole(runs)
    assert (named([whole]), whole.has_nodes) == (["17"], True)


def test_while_nodes_of_a_part_boot_it_has_not_started() -> None:
    """A part that is known as a job and waits would be granted nodes."""
    boots = part(1, **RUNS | {"job_state": ["RUNNING", "CONFIGURING"]})
    found = gang(part(0, **RUNS), boots)
    assert (named([found]), found.has_nodes, found.is_pending) == (["17"], True, False)
    assert [event.WhichOneof("payload") for event in facts_of(found, TERMS).told] == [
        "job_submitted"
    ]
    assert not boots.is_placed


def test_a_part_alone_that_waits_is_no_job() -> None:
    assert named(with_gangs([part(1)])) == ["17+1"]
    assert not part(1).is_placed
    assert lacks_parts([part(0)])
    assert not lacks_parts([part(0), part(1), SlurmJob(JOB)])
    with pytest.raises(RejectedError, match="names 1 parts that Slurm does not show"):
        facts_of(gang(part(0)), TERMS)


def test_a_gang_has_the_parts_as_slurm_would_give_them() -> None:
    found = submitted(
        gang(
            part(0, partition="small", tres_req_str="cpu=1,mem=1G,node=1", licenses="matlab:1"),
            part(
                *(1,),
                cpus=16,
                tasks=16,
                node_count=2,
                partition="big",
                features="gpu",
                excluded_nodes="b7",
                tres_req_str="cpu=16,mem=4G,node=2",
                licenses="matlab:2,ansys",
                time_limit=9,
            ),
        )
    )
    small, big = found.parts
    assert (found.nodes, found.walltime_s, found.shareable) == (3, 540, False)
    assert (found.job_id, found.cores_per_unit) == (f"north/alpha/17/{SUBMIT_S}", 0)
    assert (small.units, small.cores_per_unit, list(small.partitions)) == (1, 1, ["small"])
    assert (big.units, big.units_per_node, big.cores_per_unit) == (2, 1, 8)
    assert (big.features, list(big.nodes_excluded)) == ("gpu", ["b7"])
    assert dict(found.licences) == {"matlab": 3, "ansys": 1}
    assert not found.held_because


def test_parts_that_may_be_beside_others_on_the_same_nodes_are_equal_units_of_one_job() -> None:
    small = {"partition": "small", "excluded_nodes": "n9"}
    found = submitted(
        gang(
            part(0, **small, tres_req_str="cpu=1,mem=2G,node=1", cpus=1),
            part(1, **small, tres_req_str="cpu=3,mem=1G,node=1", cpus=3, tasks=3, time_limit=9),
        )
    )
    assert not found.parts
    assert (found.nodes, found.units_per_node, found.cores_per_unit) == (2, 1, 3)
    assert (found.memory_gib_per_unit, found.walltime_s, found.shareable) == (2, 540, True)
    assert (list(found.partitions), list(found.nodes_excluded)) == (["small"], ["n9"])


@pytest.mark.parametrize(
    "second",
    [
        {"partition": "big"},
        {"features": "gpu"},
        {"excluded_nodes": "n3"},
        {"required_nodes": "n1"},
        {"node_count": 2, "cpus": 2, "tasks": 2, "tres_req_str": "cpu=2,node=2"},
        {"shared": "none"},
    ],
)
def test_parts_that_differ_in_where_they_may_be_or_have_nodes_alone_are_a_gang(
    second: dict[str, Any],
) -> None:
    small = {"partition": "small", "tres_req_str": "cpu=1,node=1"}
    assert len(submitted(gang(part(0, **small), part(1, **{**small, **second}))).parts) == 2


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"contiguous": True, "node_count": 2}, "side by side (--contiguous), of its part 1"),
        ({"account": "physics"}, "parts with another account"),
        ({"qos": "short"}, "parts with another QOS"),
        ({"resv_name": "school"}, "parts with another reservation"),
        ({"dependency": "afterok:3(unfulfilled)"}, "parts with other dependencies"),
        ({"required_nodes": "n1"}, "want node 'n1' twice"),
        ({"required_nodes": "n1", "burst_buffer": "x", "account": "a"}, "another account"),
        ({"licenses": "a|b"}, "of its part 1"),
        ({"partition": ",".join(f"p{n}" for n in range(65))}, "65 choices of partitions"),
    ],
)
def test_what_can_be_no_gang_is_held_with_the_reason(second: dict[str, Any], words: str) -> None:
    found = submitted(gang(part(0, required_nodes="n1"), part(1, **second)))
    assert found.held_because.startswith("Coplace can't follow it: ")
    assert words in found.held_because


def test_a_gang_begins_with_its_last_part_and_ends_by_the_deadline_of_the_first() -> None:
    times = {"eligible_time": SUBMIT_S + 9, "deadline": SUBMIT_S + 90}
    found = gang(part(0, deadline=0), part(1, **times))
    assert (found.fields["eligible_time"], found.fields["deadline"]) == (*times.values(),)


def test_what_keeps_one_part_from_its_start_keeps_all() -> None:
    word = f"coplace grant=1 started freq_ghz=2.1 submit={SUBMIT_S}"
    released = {"admin_comment": word, "priority": 9, "required_nodes": "n1"}
    first = part(0, **released)
    never = gang(
        first, part(1, **released | {"state_reason": "BadConstraints", "required_nodes": "b1"})
    )
    assert (never.never_starts_for, never.released_on) == ("BadConstraints", "b1")
    limited = gang(first, part(1, **released | {"state_reason": "QOSMaxCpuPerUserLimit"}))
    assert limited_by(limited) == "QOSMaxCpuPerUserLimit"
