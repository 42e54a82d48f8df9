"""Composition root of prediction."""

from collections.abc import Mapping
from threading import Thread
from typing import Final

from services.prediction.model import load_library
from services.prediction.processor import Prediction
from services.prediction.publish import OUTPUT, SOURCE
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

    def create(_number: int, restored: Mapping[str, bytes]) -> Prediction:
        return Prediction(restored)

    return [
        Stage(
            name=SOURCE,
            inputs=_INPUTS,
            outputs=(OUTPUT,),
            create=create,
            single=True,
            rounds=shared.rounds,
            puts_barriers=shared.is_emulated,
        )
    ]


def main() -> None:
    """Run the process. Its library loads beside its start: else the first round that trains a
    forest would wait for it, and every stage behind."""
    Thread(target=load_library, name="loads the library", daemon=True).start()
    run_service("prediction", stages(settings()))
