"""What Prometheus sees of the resource manager of Kubernetes."""

from prometheus_client import generate_latest

from services.kubernetes.adapters.api import JOBS, PODS
from services.kubernetes.adapters.meter import KubernetesMeter, QueueState, queue_state
from services.kubernetes.model.jobs import KubernetesJob
from services.kubernetes.model.names import CLAIM, COPY_OF, OUTCOME, PROBLEM
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from tests.unit.services.kubernetes.objects import LIVE


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def job(name: str, labels: dict[str, str] | None = None, **told: str) -> KubernetesJob:
    names = {"problem": PROBLEM, "claim": CLAIM, "outcome": OUTCOME}
    annotations = {names[key]: value for key, value in told.items()}
    metadata = {"name": name, "namespace": "n", "annotations": annotations, "labels": labels or {}}
    return KubernetesJob("alpha", {"metadata": metadata, "spec": {}, "status": {}})


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


def test_what_never_happened_is_counted_as_none() -> None:
    telemetry, meter, _ = metered()
    resyncs = 'coplace_kubernetes_resyncs_total{cluster="alpha",objects="pods"}'
    refusals = 'coplace_kubernetes_refusals_total{cluster="alpha"}'
    assert {f"{resyncs} 0.0", f"{refusals} 0.0"} <= exported(telemetry)
    meter.listed_anew("alpha", PODS)
    meter.refused("alpha")
    assert {f"{resyncs} 1.0", f"{refusals} 1.0"} <= exported(telemetry)


def test_a_job_is_counted_as_it_is_and_a_copy_is_not() -> None:
    telemetry, meter, _ = metered()
    jobs = [
        *(job("a"), job("b"), job("c", problem="no cores"), job("d", claim=LIVE.to_json())),
        job("e", claim=LIVE.to_json(), labels={COPY_OF: "a"}),
    ]
    meter.watch(lambda: jobs)
    found = exported(telemetry)
    for state, count in ("waits", 2), ("runs", 1), ("refused", 1), ("ended", 0):
        line = f'coplace_kubernetes_jobs{{cluster="alpha",state="{state}"}} {count}.0'
        assert line in found


def test_how_a_job_ended_goes_before_what_it_was() -> None:
    assert queue_state(job("a", claim=LIVE.to_json(), outcome="completed")) is QueueState.ENDED
    assert queue_state(job("a", claim=LIVE.to_json(), problem="changed")) is QueueState.REFUSED
