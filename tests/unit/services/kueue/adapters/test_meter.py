"""What Prometheus sees of the adapter of Kueue."""

from prometheus_client import generate_latest

from services.kueue.adapters.meter import KueueMeter
from services.kueue.model.states import WorkloadState, workload_state
from shared.kubernetes.claims import GrantClaim
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from tests.unit.services.kueue.objects import LIVE, recorded


def test_workloads_are_counted_by_their_state() -> None:
    telemetry = Telemetry("kueue", Settings())
    meter = KueueMeter(telemetry.meter, lambda: 100.0)
    meter.begin("alpha")
    meter.watch(lambda: [("alpha", WorkloadState.RUNS)] * 2)
    lines = generate_latest(telemetry.registry).decode()
    assert 'coplace_kueue_workloads{cluster="alpha",state="runs"} 2.0' in lines
    assert 'coplace_kueue_workloads{cluster="alpha",state="held"} 0.0' in lines
    assert 'coplace_kueue_silence_seconds{cluster="alpha",objects="workloads"' in lines


def test_the_state_is_that_of_the_record() -> None:
    began = GrantClaim(3, is_live=True, run_uid="x")
    cases = [
        (None, {"asks": True}, WorkloadState.WAITS),
        (None, {}, None),
        (recorded(), {}, WorkloadState.WAITS),
        (recorded().held("", 1), {}, WorkloadState.HELD),
        (recorded(claim=LIVE), {}, WorkloadState.GRANTED),
        (recorded(claim=began), {}, WorkloadState.RUNS),
        (recorded(outcome="completed"), {}, WorkloadState.ENDED),
        (recorded(), {"is_aside": True}, WorkloadState.ASIDE),
    ]
    for record, more, expected in cases:
        found = workload_state(record, **{"asks": False, "is_aside": False, **more})
        assert found is expected
