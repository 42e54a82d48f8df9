"""Composition root of prediction."""

from collections.abc import Mapping
from typing import Final

from services.prediction.processor import Prediction
from services.prediction.publish import OUTPUT, POWER_OUTPUT, SOURCE
from services.prediction.settings import PredictionSettings
from shared.messaging.stage import Stage
from shared.runtime.service import run_service
from shared.runtime.settings import Settings, settings

_INPUTS: Final = (
    "jobs.events",
    "telemetry.nodes",
    "telemetry.signatures",
    "telemetry.shutters",
    "commands",
)


def stages(shared: Settings) -> list[Stage]:
    """The one stage of prediction."""
    own = PredictionSettings()

    def create(_number: int, restored: Mapping[str, bytes]) -> Prediction:
        return Prediction(restored, own.alpha)

    return [
        Stage(
            name=SOURCE,
            inputs=_INPUTS,
            outputs=(OUTPUT, POWER_OUTPUT),
            create=create,
            single=True,
            rounds=shared.rounds,
            puts_barriers=shared.is_emulated,
        )
    ]


def main() -> None:
    """Run the process."""
    run_service("prediction", stages(settings()))
