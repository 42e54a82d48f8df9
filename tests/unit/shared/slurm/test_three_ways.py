"""Whichever ways report a run, and in which order: one id has one content, and the same core time
is charged."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

import orjson
import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from hypothesis import given
from hypothesis import strategies as st

from coplace_client.errors import RejectedError
from services.slurm.model.facts import SlurmTerms, facts_of
from services.slurm.model.jobs import SlurmJob
from shared.catalogue.payloads.domain_types import run_us
from shared.slurm.clusters import ClusterMap
from shared.slurm.facts import Site, envelopes
from shared.slurm.message import Message
from shared.slurm.sacct import runs
from shared.streams.stages.stage import AlreadyAppliedError
from tests.unit.services.pricing.support import Driver
from tests.unit.shared.slurm.three_ways import T0_S, Stretch, TrueRun

SITE: Final = Site("north", "none", "m0")
OF_NODE: Final = {"n1": "gold", "n2": "rome", "n3": "rome"}
CLUSTERS: Final = ClusterMap("gold", OF_NODE, {"all": "gold"}, {"gold": "m0", "rome": "m1"})
SITES: Final = {"one cluster": SITE, "two clusters": replace(SITE, clusters=CLUSTERS)}
of_each_site: Final = pytest.mark.parametrize("site", SITES.values(), ids=SITES)
HOSTS: Final = ("n1", "n[1-2]", "n[2-3]", "n[1-3]")

stretches = st.builds(
    Stretch, st.sampled_from(HOSTS), st.integers(3, 24), st.integers(min_value=2, max_value=90)
)
true_runs = st.builds(
    TrueRun,
    st.lists(stretches, max_size=4),
    waited_s=st.integers(0, 600),
    suspended_s=st.integers(0, 1),
    state=st.sampled_from(["COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "REQUEUED"]),
    exit_code=st.sampled_from([0, 3]),
    signal=st.sampled_from([0, 9]),
    name=st.one_of(st.just("lu.C"), st.text(alphabet="aü\n\t\x01`? ", max_size=300)),
    task=st.one_of(st.none(), st.integers(0, 9)),
    admin_comment=st.sampled_from(["", f"coplace grant=3 started freq_ghz=2.1 submit={T0_S}"]),
)
# A task is no part.
true_runs = st.builds(
    lambda run, part: run if run.task is not None else replace(run, part=part),
    true_runs,
    st.sampled_from([None, None, 0, 1]),
)


def of_jobcomp(run: TrueRun, site: Site) -> list[Envelope]:
    found: list[Envelope] = []
    for record in run.jobcomp():
        with suppress(RejectedError):  # a part between two resizes
            found += envelopes(Message.parse(record, 1_000_000), site)
    return found


def of_sacct(run: TrueRun, site: Site) -> list[Envelope]:
    return [fact for row in runs(run.sacct()) for fact in envelopes(row.message(), site)]


def of_squeue(run: TrueRun, site: Site) -> list[Envelope]:
    terms = SlurmTerms(site, "alpha")
    return [fact for job in run.squeue() for fact in facts_of(SlurmJob(job), terms).told]


WAYS: Final = {"jobcomp": of_jobcomp, "sacct": of_sacct, "squeue": of_squeue}


def charged(events: Sequence[Envelope]) -> dict[int, float]:
    """The core time of the last charge, by the submit time in the job's id."""
    driver = Driver()
    for event in sorted(events, key=lambda event: not event.HasField("job_submitted")):
        with suppress(AlreadyAppliedError):
            driver.take(getattr(event, str(event.WhichOneof("payload"))))
            driver.end_round(len(driver.charges), T0_S * 1_000_000)
    last = {each.job_id: each.cores * each.runtime_s for each in driver.charges}
    found = defaultdict[int, float](float)
    for job_id, core_s in last.items():
        found[int(job_id.rpartition("/")[2].partition("_")[0])] += core_s
    return found


@of_each_site
@given(run=true_runs, order=st.permutations(sorted(WAYS)), count=st.integers(1, 3))
def test_any_ways_in_any_order_give_the_same_charges(
    site: Site, run: TrueRun, order: Sequence[str], count: int
) -> None:
    used = order[:count]
    told = [event for way in used for event in WAYS[way](run, site)]
    found = {submit_s: core_s for submit_s, core_s in charged(told).items() if core_s}
    if "sacct" in used:
        assert found == {key: core_s for key, core_s in run.core_s.items() if core_s}
        return
    parts = range(len(run.parts))
    known: dict[int, float] = {}
    for number in parts:
        by_squeue = "squeue" in used and number == len(run.parts) - 1 and run.state != "REQUEUED"
        by_jobcomp = "jobcomp" in used and number in (0, len(run.parts) - 1)
        part, key = run.parts[number], run.submit_s(number)
        if by_squeue:
            known[key] = run.core_s[key]
        elif by_jobcomp:  # which does not say that it was suspended
            known[key] = part.cores * part.time_s
    assert found == {key: core_s for key, core_s in known.items() if core_s}


@of_each_site
@given(run=true_runs)
def test_one_id_has_one_content(site: Site, run: TrueRun) -> None:
    contents = defaultdict[str, set[bytes]](set)
    for way in WAYS.values():
        for event in way(run, site):
            contents[event.id].add(event.SerializeToString(deterministic=True))
    assert {len(found) for found in contents.values()} == {1}


def test_a_run_is_of_the_cluster_of_its_nodes_whichever_way_reports_it() -> None:
    run = TrueRun([Stretch("n[2-3]", 4, 5)])
    for way in WAYS.values():
        [*_, submitted, finished] = way(run, SITES["two clusters"])
        assert finished.job_finished.cluster == "rome"
        assert finished.job_finished.node_model == "m1"
        assert submitted.job_submitted.home_cluster == "gold"
        assert finished.job_finished.job_id.startswith("north/alpha/9/")


@pytest.mark.parametrize("way", ["jobcomp", "sacct"])
def test_the_end_of_a_run_whose_start_was_reported_on_a_cluster_is_charged(way: str) -> None:
    run, site = TrueRun([Stretch("n2", 4, 5)]), SITES["two clusters"]
    began = {**orjson.loads(run.jobcomp()[0]), "state": None, "@end": None}
    start = envelopes(Message(began), site)
    assert start[1].job_started.cluster == "rome"
    assert charged([*start, *WAYS[way](run, site)]) == {T0_S: 20}


def test_the_last_part_of_a_resized_run_counts_once_where_22_05_has_the_start_of_the_job() -> None:
    run = TrueRun([Stretch("n[1-2]", 4, 5), Stretch("n1", 2, 9)])
    row = run.sacct()[1]
    twice = {**row["time"], "start": run.began_s, "elapsed": 14}
    [found] = runs([{**row, "time": twice}])
    [_, finished] = envelopes(found.message(), SITE)
    assert (found.core_s, run_us(finished.job_finished)) == (18, 9_000_000)


def test_the_first_part_of_a_heterogeneous_job_ends_the_whole_by_every_way() -> None:
    """So that a start or an end that one way loses leaves no gang in the queue."""
    run = TrueRun([Stretch("n1", 4, 5)], part=0)
    word = f"coplace grant=3 started freq_ghz=2.1 submit={T0_S}"
    for said, grant, clock_ghz in (("", 0, 0.0), (word, 3, 2.1)):
        for name, way in WAYS.items():
            known = said if name != "jobcomp" else ""
            told = way(replace(run, admin_comment=known), SITE)
            ends = [event.job_finished for event in told if event.HasField("job_finished")]
            whole, part = ends
            assert (whole.job_id, part.job_id) == (
                f"north/alpha/9/{T0_S}",
                f"north/alpha/9+0/{T0_S}",
            )
            assert whole.started_at_us == whole.ended_at_us == part.started_at_us
            assert (whole.ended_as, run_us(part)) == ("STARTED_IN_PARTS", 5_000_000)
            assert (whole.grant, part.grant) == (grant if known else 0, 0)
            assert part.freq_ghz == (clock_ghz if known else 0)
    other = replace(run, part=1)
    assert {event.job_finished.job_id for event in of_sacct(other, SITE)} == {
        "",
        f"north/alpha/8+1/{T0_S}",
    }


def test_a_heterogeneous_job_that_leaves_the_queue_is_over_as_a_whole() -> None:
    run = TrueRun([], part=0, state="CANCELLED")
    for way in WAYS.values():
        ends = [event.job_finished for event in way(run, SITE) if event.HasField("job_finished")]
        assert {each.job_id for each in ends} == {f"north/alpha/{n}/{T0_S}" for n in ("9", "9+0")}
        assert {(each.started_at_us, each.ended_as) for each in ends} == {(0, "CANCELLED")}
