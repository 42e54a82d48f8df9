"""Begin times, delays, deadlines and singletons of an emulated region with nothing else to do, its
own record under other rules, and workloads of such jobs and of jobs of thousandths of cores."""

from typing import Any, Final

import pytest
from coplace.v1.jobs_pb2 import JOB_OUTCOME_CANCELLED, JobFinished, JobSubmitted
from coplace.v1.placement_pb2 import PlacementDecided
from coplace.v1.pricing_pb2 import ChargeMade

from cli.stages import ServiceSettings
from lab.demo.embedded import EmbeddedSystem, run
from lab.demo.history import payloads
from lab.demo.options import DemoOptions
from lab.emulator.driver import play
from lab.emulator.emulator import ROUND_S, Emulator
from lab.emulator.facts import EPOCH_US, id_of
from lab.workloads.clusters import clusters
from lab.workloads.request import JobRequest, RequestedDependency
from services.placement.sequencer import Sequencer
from shared.domain.job import Condition
from shared.replay.caps import AS_RECORDED
from shared.replay.inputs import RecordedInputs
from shared.replay.region import Setting, replay
from shared.replay.truth import Truth
from shared.replay.what_if import WhatIf

CLUSTERS: Final = clusters(nodes=4)
DAY_S: Final = 86_400.0
SEED: Final = 1


def request(index: int, **changes: Any) -> JobRequest:
    values: dict[str, Any] = {
        "index": index,
        "app_id": "STREAM",
        "user": "user1",
        "account": "account1",
        "nodes": 1,
        "shareable": False,
        "repetitions": 2.0,
        "walltime_s": 3_600.0,
        "submit_s": 0.0,
        "reference_cluster": "p1",
    }
    return JobRequest(**(values | changes))


def after(index: int, condition: Condition, delay_s: float = 0.0) -> tuple[RequestedDependency]:
    return (RequestedDependency(index, condition, delay_s),)


REQUESTS: Final = (
    request(0),
    request(1, begin_s=3 * DAY_S),
    request(2, depends_on=after(0, Condition.AFTER, DAY_S)),
    request(3, depends_on=after(1, Condition.AFTER_ANY, DAY_S)),
    request(4, nodes=4, deadline_s=7_200.0, begin_s=7_000.0),
    request(5, depends_on=after(4, Condition.AFTER_NOT_OK, 600.0)),
    request(6, job_name="train", depends_on=after(0, Condition.SINGLETON)),
    request(7, job_name="train", depends_on=after(0, Condition.SINGLETON)),
    request(
        8,
        depends_on=(*after(3, Condition.AFTER_OK), *after(0, Condition.AFTER_OK)),
        depends_on_any=True,
    ),
)


@pytest.fixture(scope="module")
def played() -> EmbeddedSystem:
    options = DemoOptions(seed=SEED)
    own = ServiceSettings(options.energy, options.placement)
    system = EmbeddedSystem(options.shared(), own)
    play(Emulator(REQUESTS, CLUSTERS, SEED), system.publish, lambda _round: system.new_answers())
    return system


def seconds(us: int) -> float:
    return (us - EPOCH_US) / 1e6


def ident(index: int) -> str:
    return id_of(REQUESTS[index], CLUSTERS[0].site)


def runs(system: EmbeddedSystem) -> dict[str, JobFinished]:
    return {end.job_id: end for end in payloads(system.topic("jobs.events"), JobFinished)}


def test_each_starts_in_the_first_round_in_which_it_may(played: EmbeddedSystem) -> None:
    ended = runs(played)
    at = {i: seconds(ended[ident(i)].started_at_us) for i in (0, 1, 2, 3, 5)}
    ends = {i: seconds(ended[ident(i)].ended_at_us) for i in (1, 4)}
    expected = {
        1: 3 * DAY_S,
        2: at[0] + DAY_S,
        3: ends[1] + DAY_S,
        5: ends[4] + 600.0,
    }
    for index, earliest_s in expected.items():
        assert earliest_s <= at[index] < earliest_s + ROUND_S, index


def test_a_job_that_waits_at_its_deadline_is_cancelled_by_its_resource_manager(
    played: EmbeddedSystem,
) -> None:
    end = runs(played)[ident(4)]
    assert (end.outcome, end.started_at_us) == (JOB_OUTCOME_CANCELLED, 0)
    assert seconds(end.ended_at_us) == 7_200.0


def test_singletons_run_one_after_the_other(played: EmbeddedSystem) -> None:
    first, second = (runs(played)[ident(i)] for i in (6, 7))
    assert first.ended_at_us <= second.started_at_us < first.ended_at_us + 2 * ROUND_S * 1e6


def test_one_of_two_is_enough(played: EmbeddedSystem) -> None:
    ended = runs(played)
    assert ended[ident(8)].ended_at_us < ended[ident(3)].started_at_us


def test_its_record_is_decided_as_it_was_again_and_as_a_what_if_of_the_same_rules(
    played: EmbeddedSystem,
) -> None:
    inputs = RecordedInputs.from_events(played.topic("placement.inputs"))
    setting = Setting(DemoOptions(seed=SEED).placement.rules, 7.0)
    decided, region = replay(inputs, setting, lambda _done: None)
    published = payloads(played.topic("placement.decisions"), PlacementDecided)
    published.sort(key=lambda one: (one.round, decided.index(one)))  # of several partitions
    assert (decided, region.refused) == (published, [])
    truth = Truth.from_record(inputs, decided, setting)
    course = WhatIf(inputs, truth, setting, Sequencer({}), AS_RECORDED).play(lambda _done: None)
    assert [without_round(one) for one in course.decisions] == [without_round(d) for d in decided]


def test_a_demo_in_which_half_of_the_jobs_say_when_they_may_start_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COPLACE_SIMULATION_TIMED_SHARE", "0.5")
    system = run(DemoOptions(seed=SEED, jobs=60, caps=False), lambda _jobs: None)
    submitted = payloads(system.topic("jobs.events"), JobSubmitted)
    ended = runs(system)
    assert ended.keys() == {job.job_id for job in submitted}
    timed = [job for job in submitted if job.begin_at_us or job.deadline_at_us or job.depends_on]
    assert 20 < len(timed) < 40
    for job in timed:
        end = ended[job.job_id]
        if end.started_at_us:
            assert end.started_at_us >= job.begin_at_us
        else:
            assert end.ended_at_us == job.deadline_at_us


def test_a_demo_in_which_half_of_the_jobs_need_thousandths_of_cores_ends_and_charges_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COPLACE_SIMULATION_THOUSANDTHS_SHARE", "0.5")
    monkeypatch.setenv("COPLACE_SIMULATION_QUARTERS_SHARE", "0.1")
    system = run(DemoOptions(seed=SEED, jobs=60, caps=False), lambda _jobs: None)
    submitted = payloads(system.topic("jobs.events"), JobSubmitted)
    fine = {job.job_id: job for job in submitted if job.millicores_per_unit}
    assert len(fine) > 15
    ended = runs(system)
    assert ended.keys() == {job.job_id for job in submitted}
    charged = {each.job_id: each for each in payloads(system.topic("prices.charges"), ChargeMade)}
    for job_id, job in fine.items():
        held = job.nodes * job.millicores_per_unit
        assert ended[job_id].millicores == (held if held % 1000 else 0)
        assert charged[job_id].millicores == ended[job_id].millicores


def without_round(decided: PlacementDecided) -> PlacementDecided:
    """A what-if ends rounds at the latest starts of jobs with deadlines too."""
    found = PlacementDecided()
    found.CopyFrom(decided)
    found.ClearField("round")
    return found
