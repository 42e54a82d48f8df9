"""Mislabelled jobs, from the workload through every stage to the report on their users."""

from collections import Counter

import pytest
from coplace.v1.energy_pb2 import ADVICE_REASON_MISMATCH, AppIdMismatch, FrequencyAdvised

from cli.energy.misuse import TOPIC, by_user
from lab.demo import embedded
from lab.demo.embedded import EmbeddedSystem
from lab.demo.history import payloads
from lab.demo.options import DemoOptions
from lab.emulator.app import workload
from lab.emulator.facts import id_of
from lab.workloads.request import JobRequest

# What differs under one name is noise here. An application of several kinds needs several names,
# and a clock above the one asked for draws more than its P-state can (services/energy).
OPTIONS = DemoOptions(seed=2, jobs=150, without="clocks,waiting,imbalance,inputs")


def played(monkeypatch: pytest.MonkeyPatch, share: float) -> tuple[EmbeddedSystem, list[str]]:
    monkeypatch.setenv("COPLACE_SIMULATION_MISLABELLED_SHARE", str(share))
    monkeypatch.setenv("COPLACE_SIMULATION_MEASURED_AFTER_S", "60")
    return embedded.run(OPTIONS, lambda _finished: None), [
        id_of(request, "demo") for request in requests() if request.runs
    ]


def requests() -> list[JobRequest]:
    return list(workload(OPTIONS.simulation)[0])


@pytest.mark.rest
def test_mislabelled_jobs_are_found_advised_and_counted_by_user(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    system, wrong = played(monkeypatch, share=0.1)
    mismatches = payloads(system.topic("energy.mismatches"), AppIdMismatch)
    advised = payloads(system.topic(TOPIC), FrequencyAdvised)

    found = {each.job_id for each in mismatches}
    assert found <= set(wrong), "who is what he says raises no alarm"
    assert len(found) >= 0.8 * len(wrong)
    assert advised
    assert {each.reason for each in advised} == {ADVICE_REASON_MISMATCH}
    assert all(each.freq_ghz != each.present.freq_ghz for each in advised)

    owner = {id_of(request, "demo"): request.user for request in requests()}
    expected = Counter(owner[job_id] for job_id in found)
    assert {each.user: each.jobs for each in by_user(system.topic(TOPIC))} == expected


@pytest.mark.rest
def test_without_mislabelled_jobs_nobody_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    system, wrong = played(monkeypatch, share=0.0)

    assert wrong == []
    assert payloads(system.topic("energy.mismatches"), AppIdMismatch) == []
    assert by_user(system.topic(TOPIC)) == []
