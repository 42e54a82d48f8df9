"""What Prometheus sees of prediction."""

from prometheus_client import generate_latest

from services.prediction.adapters import LEAST_JUDGED, PowerMeter
from services.prediction.processor import Prediction
from shared.runtime.settings import Settings
from shared.runtime.telemetry import Telemetry
from tests.unit.services.prediction.support import declared
from tests.unit.services.prediction.test_job_power import job, told


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
