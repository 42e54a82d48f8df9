import os
import subprocess
import sys
from typing import Any

import pytest

from lab.emulator.effects import EVERY, NONE, Effect
from lab.emulator.truth.noise import Noise
from lab.emulator.truth.runs import EmulatedTruth
from lab.emulator.truth.traits import INPUTS, MOST_IMBALANCE, VECTOR_LIMIT, traits_of, unevenness
from lab.workloads.request import JobRequest
from lab.workloads.table1 import APPS, NODE_MODELS, PLATINUM_8168, profile

JOBS = [f"job-{number}" for number in range(100)]


def request(**changes: Any) -> JobRequest:
    values: dict[str, Any] = {
        "index": 0,
        "app_id": "lu.C",
        "user": "user01",
        "account": "account1",
        "nodes": 4,
        "shareable": False,
        "repetitions": 10.0,
        "walltime_s": 3600.0,
        "submit_s": 0.0,
        "reference_cluster": "p1",
    }
    return JobRequest(**(values | changes))


def truths(seed: int) -> list[object]:
    truth = EmulatedTruth(Noise(seed))
    models = [*NODE_MODELS.values()]
    found: list[object] = [truth.application(app, m, 1.8) for app in APPS for m in models]
    found += [truth.job(request(), job, PLATINUM_8168, 2.0, 4) for job in JOBS[:5]]
    return [*found, truth.kernel("kernel-fma", PLATINUM_8168, 2.7)]


@pytest.mark.parametrize("hash_seed", ["0", "12345"])
def test_a_seed_has_one_truth_in_every_process(hash_seed: str) -> None:
    program = f"import {__name__.rpartition('.')[2]} as here; print(here.truths(7))"
    environment = os.environ | {"PYTHONHASHSEED": hash_seed}
    folder = os.path.dirname(__file__)  # noqa: PTH120 (a module is imported from it)
    environment["PYTHONPATH"] = os.pathsep.join([folder, *sys.path])

    said = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert said.stdout.strip() == str(truths(7))
    assert truths(7) != truths(8)


def test_an_application_differs_by_seed_and_not_by_what_was_asked_before() -> None:
    drawn = {seed: traits_of(Noise(seed), "lu.C") for seed in range(200)}

    assert len({*drawn.values()}) == 200
    assert drawn[3] == EmulatedTruth(Noise(3)).traits("lu.C")
    limits = [traits.vector_limit for traits in drawn.values() if traits.vector_limit < 1]
    assert 60 < len(limits) < 100
    assert min(limits) >= VECTOR_LIMIT[0]
    assert all(len(traits.inputs) == INPUTS for traits in drawn.values())


def test_jobs_of_one_name_have_several_inputs_and_users_mostly_stay_with_one() -> None:
    truth = EmulatedTruth(Noise(1), frozenset({Effect.INPUTS}))

    runs = [truth.job(request(), job, PLATINUM_8168, 2.7, 4) for job in JOBS]

    times_s = [seen.time_s for seen, _ in runs]
    assert len({*times_s}) == INPUTS
    assert max(map(times_s.count, times_s)) > 60
    published_s = profile("lu.C", "platinum-8168").time_s
    for seen, repetitions in runs:
        assert seen.time_s * repetitions == pytest.approx(10 * published_s)


def test_the_more_nodes_a_job_has_the_longer_they_wait_for_the_fullest() -> None:
    noise = Noise(1)
    traits = traits_of(noise, "lu.C")._replace(imbalance=MOST_IMBALANCE)

    means = [
        sum(unevenness(noise, traits, job, nodes) for job in JOBS) / len(JOBS)
        for nodes in (1, 2, 8, 64)
    ]

    assert means[0] == 0.0
    assert means == sorted(means)
    # The largest of 64 normal values is 2.34 deviations above their mean in the mean.
    assert means[-1] == pytest.approx(2.34 * MOST_IMBALANCE, rel=0.1)


def test_without_effects_a_job_is_as_published_on_any_nodes() -> None:
    seen, repetitions = EmulatedTruth(Noise(1), NONE).job(request(), "job", PLATINUM_8168, 2.7, 64)

    published = profile("lu.C", "platinum-8168")
    assert seen.time_s == pytest.approx(published.time_s)
    assert seen.power_w == pytest.approx(published.power_w)
    assert repetitions == 10.0


@pytest.mark.parametrize("effect", Effect)
def test_each_effect_by_itself_changes_what_is_measured(effect: Effect) -> None:
    def measured(effects: frozenset[Effect]) -> list[object]:
        truth = EmulatedTruth(Noise(1), effects)
        return [
            truth.job(request(app_id=app), job, PLATINUM_8168, 2.2, 4)
            for app in APPS
            for job in JOBS[:3]
        ]

    assert measured(frozenset({effect})) != measured(NONE)
    assert measured(EVERY - {effect}) != measured(EVERY)
