"""The energy service's stages."""

from collections.abc import Mapping

from services.energy.adapters import read_coefficients
from services.energy.adapters.drift_meter import DriftMeter
from services.energy.processor import advisor, appdb, learner
from services.energy.settings import EnergySettings
from shared.process.life import Process, run_process
from shared.process.settings import Settings
from shared.streams.on_kafka.service import run_service
from shared.streams.stages.stage import RELAXED_S, Stage

MEASURED = "telemetry.signatures"
DECLARED = "commands"
JOBS = "jobs.events"


def stages(
    shared: Settings, own: EnergySettings | None = None, meter: DriftMeter | None = None
) -> list[Stage]:
    """Return the stages AppDB, learner and advisor; each learner is passed to `meter`. Raises
    OSError or ValueError for unreadable coefficients."""
    own, meter = own or EnergySettings(), meter or DriftMeter()
    imported = read_coefficients(own.coefficients) if own.coefficients else {}

    def create_appdb(_number: int, restored: Mapping[str, bytes]) -> appdb.AppDB:
        return appdb.AppDB(restored)

    def create_learner(_number: int, restored: Mapping[str, bytes]) -> learner.Learner:
        return meter.watch(learner.Learner(restored, imported, own.adapt_after))

    def create_advisor(_number: int, restored: Mapping[str, bytes]) -> advisor.Advisor:
        half_life_days, remember_s = own.misuse_half_life_days, own.advice_remember_s
        return advisor.Advisor(restored, own.advice, half_life_days, remember_s)

    return [
        Stage(
            name=appdb.SOURCE,
            inputs=(MEASURED,),
            outputs=(appdb.OUTPUT, appdb.MISMATCHES),
            consumes=appdb.CONSUMES,
            create=create_appdb,
            rounds=shared.rounds,
            puts_barriers=shared.is_emulated,
            relaxed_s=RELAXED_S,
            keyed_by=appdb.row_of,
        ),
        Stage(
            name=learner.SOURCE,
            inputs=(MEASURED, DECLARED),
            outputs=(learner.OUTPUT,),
            consumes=learner.CONSUMES,
            create=create_learner,
            single=True,
            rounds=shared.rounds,
            puts_barriers=shared.is_emulated,
            relaxed_s=RELAXED_S,
        ),
        Stage(
            name=advisor.SOURCE,
            inputs=(MEASURED, appdb.MISMATCHES, appdb.OUTPUT, learner.OUTPUT, JOBS),
            outputs=(advisor.OUTPUT,),
            consumes=advisor.CONSUMES,
            create=create_advisor,
            single=True,
            rounds=shared.rounds,
            puts_barriers=shared.is_emulated,
            relaxed_s=RELAXED_S,
        ),
    ]


async def serve(process: Process) -> None:
    """Run the stages until the process shall stop."""
    meter = DriftMeter()
    await run_service(process, stages(process.settings, meter=meter), meter.register)


def main() -> None:
    """Run the process of the energy model."""
    run_process("energy", serve)
