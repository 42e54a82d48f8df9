"""The energy service's stages."""

from collections.abc import Mapping

from services.energy.adapters import read_coefficients
from services.energy.processor import appdb, learner
from services.energy.settings import EnergySettings
from shared.messaging.stage import Stage
from shared.runtime.service import run_service
from shared.runtime.settings import Settings, settings

MEASURED = "telemetry.signatures"
DECLARED = "commands"


def stages(shared: Settings, own: EnergySettings | None = None) -> list[Stage]:
    """AppDB and the learner. Raises OSError or ValueError for coefficients that cannot be read."""
    own = own or EnergySettings()
    imported = read_coefficients(own.coefficients) if own.coefficients else {}

    def create_appdb(_number: int, restored: Mapping[str, bytes]) -> appdb.AppDB:
        return appdb.AppDB(restored)

    def create_learner(_number: int, restored: Mapping[str, bytes]) -> learner.Learner:
        return learner.Learner(restored, imported)

    return [
        Stage(
            name=appdb.SOURCE,
            inputs=(MEASURED,),
            outputs=(appdb.OUTPUT, appdb.MISMATCHES),
            create=create_appdb,
            rounds=shared.rounds,
            marks_outputs=shared.is_emulated,
        ),
        Stage(
            name=learner.SOURCE,
            inputs=(MEASURED, DECLARED),
            outputs=(learner.OUTPUT,),
            create=create_learner,
            single=True,
            rounds=shared.rounds,
            marks_outputs=shared.is_emulated,
        ),
    ]


def main() -> None:
    """Run the process."""
    run_service("energy", stages(settings()))
