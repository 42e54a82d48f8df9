"""What prediction publishes can be encoded for its topic."""

import pytest
from coplace.v1.prediction_pb2 import PowerHistoryUpdated

from services.prediction.publish import power_history_event
from shared.streams.stages.stage import Round
from tests.support.messaging import CODEC, START_US


@pytest.mark.parametrize("accelerators_w", [0.0, 1200.0])
def test_the_key_of_a_kind_of_jobs_names_its_accelerators(accelerators_w: float) -> None:
    message = PowerHistoryUpdated(
        number=START_US,
        node_model="gold",
        freq_ghz=2.0,
        user="ada",
        app_id="hpcg",
        size="2 units",
        walltime_s=60.0,
        accelerators_w=accelerators_w,
    )
    publish = power_history_event(message, Round(0, START_US))
    record = CODEC.encode(publish)
    assert record.key == f"gold|2.0|ada|hpcg|2 units|60.0|{accelerators_w}".encode()
