"""What Prometheus sees of the resource manager of Kubernetes."""

import pytest
from prometheus_client import generate_latest

from services.kubernetes.adapters.api import JOBS
from services.kubernetes.adapters.home import HOME
from services.kubernetes.adapters.meter import (
    OF_EXECUTOR,
    OF_HOME,
    ExecutorMeter,
    KubernetesMeter,
)
from services.kubernetes.model.queues import QueueCounts
from services.kubernetes.model.records import KubernetesRecord
from services.kubernetes.model.states import CopyState, QueueState, queue_state
from shared.kubernetes.api import PODS
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from tests.unit.services.kubernetes.objects import LIVE, recorded


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def metered() -> tuple[Telemetry, KubernetesMeter, Clock]:
    telemetry, clock = Telemetry("kubernetes", Settings()), Clock()
    meter = KubernetesMeter(telemetry.meter, clock)
    meter.begin("alpha")
    return telemetry, meter, clock


def exported(telemetry: Telemetry) -> set[str]:
    lines = generate_latest(telemetry.registry).decode().splitlines()
    return {line for line in lines if line.startswith("coplace_kubernetes")}


def test_an_api_server_is_silent_until_it_says_something_of_these_objects() -> None:
    telemetry, meter, clock = metered()
    clock.now_s += 60
    meter.heard("alpha", JOBS)
    clock.now_s += 5
    found = exported(telemetry)
    assert 'coplace_kubernetes_silence_seconds{cluster="alpha",objects="jobs"} 5.0' in found
    assert 'coplace_kubernetes_silence_seconds{cluster="alpha",objects="pods"} 65.0' in found


def test_of_a_cluster_with_an_executor_other_objects_are_heard() -> None:
    telemetry, meter, _ = metered()
    meter.begin("beta", OF_EXECUTOR)
    found = "\n".join(exported(telemetry))
    assert 'silence_seconds{cluster="beta",objects="executornodes"}' in found
    assert 'silence_seconds{cluster="beta",objects="pods"}' not in found


def test_what_never_happened_is_counted_as_none() -> None:
    telemetry, meter, _ = metered()
    resyncs = 'coplace_kubernetes_resyncs_total{cluster="alpha",objects="pods"}'
    refusals = 'coplace_kubernetes_refusals_total{cluster="alpha"}'
    assert {f"{resyncs} 0.0", f"{refusals} 0.0"} <= exported(telemetry)
    meter.listed_anew("alpha", PODS)
    meter.refused("alpha")
    assert {f"{resyncs} 1.0", f"{refusals} 1.0"} <= exported(telemetry)


def test_a_job_is_counted_by_its_state() -> None:
    telemetry, meter, _ = metered()
    meter.watch(lambda: {"alpha": QueueCounts(waiting=2, admitted=1, aside=1)})
    found = exported(telemetry)
    for state, count in ("waits", 2), ("runs", 1), ("aside", 1), ("refused", 0), ("ended", 0):
        line = f'coplace_kubernetes_jobs{{cluster="alpha",state="{state}"}} {count}.0'
        assert line in found


def test_what_is_left_out_is_counted() -> None:
    telemetry, meter, _ = metered()
    meter.odd("alpha")
    assert 'coplace_kubernetes_odd_objects_total{cluster="alpha"} 1.0' in exported(telemetry)


def test_an_executor_says_how_long_the_home_cluster_and_its_own_are_silent() -> None:
    telemetry, clock = Telemetry("kubernetes-executor", Settings()), Clock()
    meter = ExecutorMeter(telemetry.meter, "beta", clock)
    meter.begin(HOME, OF_HOME)
    meter.begin("beta")
    clock.now_s += 60
    meter.heard("beta", JOBS)
    meter.refused(HOME)
    found = exported(telemetry)
    silence = "coplace_kubernetes_silence_seconds"
    assert f'{silence}{{cluster="home",objects="jobassignments"}} 60.0' in found
    assert f'{silence}{{cluster="beta",objects="jobs"}} 0.0' in found
    assert 'coplace_kubernetes_refusals_total{cluster="home"} 1.0' in found
    assert 'coplace_kubernetes_refusals_total{cluster="beta"} 0.0' in found


def test_an_executor_counts_copies_by_their_state() -> None:
    telemetry = Telemetry("kubernetes-executor", Settings())
    meter = ExecutorMeter(telemetry.meter, "beta")
    meter.watch(lambda: {CopyState.RUNS: 3})
    found = exported(telemetry)
    for state in CopyState:
        count = 3.0 if state is CopyState.RUNS else 0.0
        assert f'coplace_kubernetes_copies{{cluster="beta",state="{state}"}} {count}' in found


@pytest.mark.parametrize(
    ("record", "is_refused", "is_aside", "state"),
    [
        (None, False, False, QueueState.WAITS),
        (None, True, True, QueueState.REFUSED),
        (recorded(), False, False, QueueState.WAITS),
        (recorded(LIVE), False, False, QueueState.RUNS),
        (recorded(LIVE), False, True, QueueState.ASIDE),
        (recorded(LIVE, "completed"), False, False, QueueState.ENDED),
    ],
)
def test_the_state_of_a_job_is_that_of_its_record(
    record: KubernetesRecord | None, *, is_refused: bool, is_aside: bool, state: QueueState
) -> None:
    assert queue_state(record, is_refused=is_refused, is_aside=is_aside) is state
