"""A service process: stages on Kafka, with health, metrics, traces and logs."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext

from opentelemetry.metrics import Meter as InstrumentFactory

from shared.catalogue.topics import DLQ_PREFIX
from shared.process.life import Process
from shared.streams.on_kafka.driver import run_stages
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.stages import outcomes
from shared.streams.stages.stage import Stage
from shared.streams.telemetry import hooks_of


async def run_service(
    process: Process,
    stages: Sequence[Stage],
    register: Callable[[InstrumentFactory], None] | None = None,
    beside: Callable[[Process], AbstractAsyncContextManager[None]] | None = None,
) -> None:
    """Run stages on Kafka as a process's work; `register` creates instruments of its own,
    `beside` does what shall be done while they run."""
    if register is not None:
        register(process.telemetry.meter)
    await wait_for_topics(process.settings, _topics(stages), process.readiness, process.stop)
    process.readiness.wait_for("Kafka partitions and their state")
    async with beside(process) if beside else nullcontext():
        await run_stages(
            stages,
            process.settings,
            process.stop,
            hooks_of(process.telemetry),
            process.readiness.ready,
            process.readiness.refuse,
        )


def _topics(stages: Sequence[Stage]) -> set[str]:
    return {
        name
        for stage in stages
        for name in (
            *stage.inputs,
            *stage.outputs,
            stage.changelog,
            *(DLQ_PREFIX + topic for topic in stage.inputs),
            *((outcomes.TOPIC,) if outcomes.are_told_by(stage) else ()),
        )
    }
