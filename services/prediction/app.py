"""Composition root of prediction."""

from collections.abc import Mapping
from typing import Final

from coplace.v1.telemetry_pb2 import NodeSamples

from services.prediction.adapters import PowerMeter
from services.prediction.job_power import recall_outputs
from services.prediction.node_statistics import INPUT, STAGE, NodeStatistics, node_of
from services.prediction.node_statistics import OUTPUT as READINGS
from services.prediction.processor import CONSUMES, Prediction
from services.prediction.publish import OUTPUT, POWER_OUTPUT, SOURCE
from services.prediction.settings import PredictionSettings
from shared.catalogue.schemas import names_of
from shared.process.life import Process, run_process
from shared.process.settings import Settings
from shared.streams.on_kafka.service import run_service
from shared.streams.stages.stage import RELAXED_S, Stage

_INPUTS: Final = (
    "jobs.events",
    READINGS,
    "telemetry.signatures",
    "telemetry.shutters",
    "commands",
)


def stages(shared: Settings, meter: PowerMeter | None = None) -> list[Stage]:
    """Return the stages that summarise nodes, by node, and the one that learns; its processor is
    passed to `meter`."""
    own, watching = PredictionSettings(), meter or PowerMeter()

    def create(_number: int, restored: Mapping[str, bytes]) -> Prediction:
        return watching.watch(Prediction(restored, own.alpha))

    return [
        Stage(
            name=STAGE,
            inputs=(INPUT,),
            outputs=(READINGS,),
            consumes=names_of(NodeSamples),
            create=lambda _number, restored: NodeStatistics(restored),
            rounds=shared.rounds,
            puts_barriers=shared.is_emulated,
            relaxed_s=RELAXED_S,
            keyed_by=node_of,
        ),
        Stage(
            name=SOURCE,
            inputs=_INPUTS,
            outputs=(OUTPUT, POWER_OUTPUT),
            consumes=CONSUMES,
            create=create,
            single=True,
            rounds=shared.rounds,
            puts_barriers=shared.is_emulated,
            recall=recall_outputs,
        ),
    ]


async def serve(process: Process) -> None:
    """Run the stages until the process shall stop."""
    meter = PowerMeter()
    await run_service(process, stages(process.settings, meter), meter.register)


def main() -> None:
    """Run the process of prediction."""
    run_process("prediction", serve)
