"""Composition root of placement."""

import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from services.placement import meter, sequencer
from services.placement.sequencer import Sequencer
from services.placement.service import MOST_QUESTIONS, Duty, PlacementService
from services.placement.settings import PlacementSettings
from shared.authority.bearing import TokenGate
from shared.authority.following import Followed, following
from shared.authority.questions import question_door
from shared.placement.decide import published_decisions
from shared.placement.processor.placement import Placement, repaired
from shared.placement.state.announcements import OUTPUT
from shared.pricing.settings import RateSettings
from shared.pricing.terms import KIND, TOPIC, PriceTerms
from shared.process.crash import end_process
from shared.process.grpc_server import grpc_server
from shared.process.life import Process, run_process
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.on_kafka.service import run_service
from shared.streams.on_kafka.waiting import wait_for_topics
from shared.streams.stages.stage import Stage

NAME: Final = "placement"
# As which it answers: a part of the process beside the stages.
DOOR: Final = "placement.api"
# How long the thread that works out forecasts may keep the loop from its work, s: Python's default
# is 5 ms, at each of the many times that a transaction waits for the broker.
QUICK_SWITCH_S: Final = 0.0005

# How placement asks the sequencer for a round, and what a planner proposes: only where a clock
# closes rounds, since the barriers of emulated ones could not go round in a circle.
WAKES: Final = "placement.wakes"
PLANS: Final = "placement.plans"
SEQUENCED = (
    "jobs.events",
    "commands",
    "energy.signatures",
    "energy.coefficients",
    "prediction.models",
    "prediction.power",
    "accounts.standings",
    "telemetry.shutters",
)


def stages(
    shared: Settings, own: PlacementSettings | None = None, duty: Duty | None = None
) -> list[Stage]:
    """Return the sequencer and placement, whose rounds are always the sequencer's barriers; `duty`
    knows which processor decides."""
    own, duty = own or PlacementSettings(), duty or Duty()

    def create_sequencer(_number: int, restored: Mapping[str, bytes]) -> Sequencer:
        return Sequencer(restored)

    def create_placement(_number: int, restored: Mapping[str, bytes]) -> Placement:
        placement = Placement(restored, own.rules, own.remember_days)
        duty.begin(placement.queries)
        return placement

    return [
        Stage(
            name="placement.sequencer",
            inputs=SEQUENCED if shared.is_emulated else (*SEQUENCED, WAKES, PLANS),
            outputs=(sequencer.OUTPUT,),
            consumes=sequencer.CONSUMES,
            create=create_sequencer,
            passes_to=NAME,
            single=True,
            rounds=shared.rounds,
        ),
        Stage(
            name="placement",
            inputs=(sequencer.OUTPUT,),
            outputs=(OUTPUT,) if shared.is_emulated else (OUTPUT, WAKES),
            consumes=sequencer.CONSUMES,
            create=create_placement,
            repair=repaired,
            given_up=duty.end,
            recall=published_decisions.recalled,
            single=True,
            puts_barriers=shared.is_emulated,
            wakes="" if shared.is_emulated else WAKES,
        ),
    ]


async def serve(process: Process) -> None:
    """Decide until the process shall stop, and answer beside that."""
    sys.setswitchinterval(QUICK_SWITCH_S)
    own, duty = PlacementSettings(), Duty()

    @asynccontextmanager
    async def answering(process: Process) -> AsyncIterator[None]:
        crash, terms = partial(end_process, DOOR), PriceTerms(RateSettings().rate_su_per_core_s)
        await wait_for_topics(process.settings, (TOPIC,), process.readiness, process.stop)
        deployment = Deployment.from_settings(process.settings)
        tariffs = Followed(deployment, [TOPIC], {KIND}, terms.fold, {})
        async with question_door(process, DOOR) as door, following(tariffs, crash):
            handlers = PlacementService(duty, own.most_foreseen, terms, door).handlers()
            gate = TokenGate(door, crash)
            async with grpc_server(
                *(process, own.host, own.port, handlers, MOST_QUESTIONS),
                gate=gate,
                is_on_duty=lambda: duty.queries is not None,
            ):
                yield

    measuring = partial(meter.watch, duty=duty)
    await run_service(process, stages(process.settings, own, duty), measuring, answering)


def main() -> None:
    """Run the process of placement."""
    run_process(NAME, serve)
