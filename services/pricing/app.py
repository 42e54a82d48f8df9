"""Composition root of pricing."""

from typing import Final

from services.pricing.adapters import ChargeMeter
from services.pricing.processor import CHARGES, CONSUMES, STANDINGS, PriceRule, PricingProcessor
from services.pricing.restoring import recall_outputs, repair_state
from services.pricing.settings import PricingSettings
from shared.process.life import Process, run_process
from shared.process.settings import Settings
from shared.streams.on_kafka.service import run_service
from shared.streams.stages.stage import RELAXED_S, Stage

_INPUTS: Final = ("jobs.events", "telemetry.shutters", "prediction.power", "commands", "billing")


def stages(settings: Settings, meter: ChargeMeter | None = None) -> list[Stage]:
    """Return the pricing stage, one unit: an account's jobs have any keys; its processor is passed
    to `meter`. Emulated rounds bring a job's shutters with its finish, so none waits."""
    own, watching = PricingSettings(), meter or ChargeMeter()
    grace_s = 0.0 if settings.is_emulated else own.grace_s
    tariff = PriceRule(own.rate_su_per_core_s, round(grace_s * 1e6), round(own.remember_s * 1e6))
    return [
        Stage(
            name="pricing",
            inputs=_INPUTS,
            outputs=(CHARGES, STANDINGS),
            consumes=CONSUMES,
            create=lambda _unit, restored: watching.watch(PricingProcessor(tariff, restored)),
            rounds=settings.rounds,
            repair=lambda restored, now_us: repair_state(restored, tariff, now_us),
            puts_barriers=settings.is_emulated,
            relaxed_s=RELAXED_S,
            single=True,
            recall=recall_outputs,
        )
    ]


async def serve(process: Process) -> None:
    """Run the stage until the process shall stop."""
    meter = ChargeMeter()
    await run_service(process, stages(process.settings, meter), meter.register)


def main() -> None:
    """Run the process of pricing."""
    run_process("pricing", serve)
