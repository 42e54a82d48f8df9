"""What Prometheus sees of prediction."""

from dataclasses import replace

from coplace.v1.control_pb2 import ClusterDeclared
from prometheus_client import generate_latest

from services.prediction.adapters import LEAST_JUDGED, PowerMeter
from services.prediction.processor import Prediction
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from tests.unit.services.prediction.support import declared, job, read
from tests.unit.services.prediction.test_job_power import told


def test_prometheus_sees_how_good_predictions_turn_out_to_be() -> None:
    telemetry, meter = Telemetry("prediction", Settings()), PowerMeter()
    meter.register(telemetry.meter)
    prediction = meter.watch(Prediction({}))
    told(prediction, 0, [declared(), *job(0, 300.0)])
    assert b"coplace_power_error" not in generate_latest(telemetry.registry)
    for number in range(1, LEAST_JUDGED + 1):
        told(prediction, number, job(number, 300.0 if number % 2 else 330.0))
    shown = generate_latest(telemetry.registry).decode()
    scores = prediction.power_learner.scores
    assert scores.error > 0
    assert f"coplace_power_error_ratio {scores.error}" in shown
    assert f"coplace_power_above_bound_ratio {scores.above_share}" in shown
    assert "coplace_power_alpha_ratio 0.1" in shown


def test_prometheus_counts_powers_that_teach_nothing_and_what_predictions_fell_back_on() -> None:
    telemetry, meter = Telemetry("prediction", Settings()), PowerMeter()
    meter.register(telemetry.meter)
    prediction = meter.watch(Prediction({}))
    assert b"coplace_power_outcomes" not in generate_latest(telemetry.registry)
    told(prediction, 0, [declared(), *job(0, 300.0)])
    for number, energy_j in enumerate((0.0, 1e-3, 1e15), start=1):
        submitted, started, finished = job(number, 300.0, energy_j=energy_j)
        told(prediction, number, [submitted, started])
        told(prediction, 10 + number, [finished])
    told(prediction, 20, job(9, 300.0, "other", cluster="nowhere"))
    shown = generate_latest(telemetry.registry).decode()
    for outcome, count in (("learned", 1), ("missing", 1), ("implausible", 2), ("undeclared", 1)):
        assert f'coplace_power_outcomes_total{{outcome="{outcome}"}} {count}.0' in shown
    for same, count in (("none", 1), ("user, application, size, walltime", 3), ("user", 1)):
        assert f'coplace_power_predictions_total{{same="{same}"}} {count}.0' in shown


def test_prometheus_counts_readings_that_no_node_in_use_shows() -> None:
    """Nodes idle at 110 W; nobody declares what they draw at most. One without a job may be off."""
    telemetry, meter = Telemetry("prediction", Settings()), PowerMeter()
    meter.register(telemetry.meter)
    prediction = meter.watch(Prediction({}))
    submitted, started, _ = job(0, 300.0)
    told(prediction, 0, [declared(), submitted, started])
    readings = [("n1", 300.0), ("n1", 54.0), ("n2", 3.0), ("p1-0003", 3.0), ("n1", 65_535.0)]
    for number, (node, power_w) in enumerate(readings):
        told(prediction, 1 + number, [read(node, power_w, 10 + number)])
    shown = generate_latest(telemetry.registry).decode()
    assert "coplace_implausible_readings_total 2.0" in shown
    said = ClusterDeclared.FromString(declared().payload.SerializeToString())
    said.nameplate_power_w = 520.0
    anew = replace(declared(), id="anew", payload=said)
    told(prediction, 9, [anew, read("n1", 65_535.0, 20), read("n1", 700.0, 21)])
    assert "coplace_implausible_readings_total 3.0" in generate_latest(telemetry.registry).decode()


def test_what_no_node_of_the_cluster_draws_teaches_nothing() -> None:
    """A run of an hour on whole nodes that idle at 110 W and draw 520 W at most, two thirds above
    that, and less than they do idle; one on few cores of theirs may draw little."""
    prediction = Prediction({})
    said = ClusterDeclared.FromString(declared().payload.SerializeToString())
    said.nameplate_power_w = 520.0
    told(prediction, 0, [replace(declared(), payload=said)])
    told(prediction, 1, job(1, 870.0))
    told(prediction, 2, job(2, 40.0))
    few = {"cores_per_unit": 4}
    told(prediction, 3, job(3, 40.0, of_submission=few, cores=8))
    assert prediction.job_power.outcomes == {"implausible": 2, "learned": 1}
