"""Options of a demo, as the settings that its services read."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic_settings import BaseSettings

from cli.region_policy import RegionPolicy
from lab.emulator.settings import SimulationSettings
from services.energy.settings import EnergySettings
from services.placement.settings import PlacementSettings
from services.planner.settings import PlannerSettings
from shared.domain.eamc_policy import Policy
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings

# Every unit commits every round, with a barrier for every Kafka partition: two let workers share a
# stage, and take a third less of CPU time than four.
_KAFKA_PARTITIONS: Final = 2


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The knobs of `make demo`; on Kafka each stateful service has `workers` processes. With `caps`
    the operators declare what a cluster and the region may draw; a `secure` run on Kafka has TLS,
    passwords and access control everywhere. Without `sharing` nobody has a neighbour that slows him
    down at all. `without` names effects that are left out of what really happens; `reports` is a
    folder of EAR's, imported before the first job. With `together` services share processes on
    Kafka as `coplace up` has them; where they have several workers or credentials they cannot."""

    seed: int = 1
    jobs: int = 1000
    policy: RegionPolicy = RegionPolicy.PRIORITY_INC_V
    out: Path = Path("out")
    swf: Path | None = None
    coefficients: Path | None = None
    workers: int = 1
    caps: bool = True
    secure: bool = False
    sharing: bool = True
    without: str | None = None
    reports: Path | None = None
    together: bool = False

    @property
    def simulation(self) -> SimulationSettings:
        """Return the emulator's settings."""
        return SimulationSettings(
            **_given(
                seed=self.seed,
                jobs=self.jobs,
                swf=self.swf,
                coefficients=self.coefficients,
                without=self.without,
                reports=self.reports,
            ),
            caps=self.caps,
            planned=self.planned,
        )

    @property
    def energy(self) -> EnergySettings:
        """Return the energy service's settings."""
        return EnergySettings(**_given(coefficients=self.coefficients))

    @property
    def placement(self) -> PlacementSettings:
        """Return placement's settings: what it decides by where no plan is in force."""
        given = _given(max_slowdown=self._max_slowdown, meter_silence_s=self._meter_silence_s)
        return PlacementSettings(policy=Policy(self.policy.without_plan), **given)

    @property
    def _max_slowdown(self) -> float | None:
        return None if self.sharing else 1.0

    @property
    def _meter_silence_s(self) -> float | None:
        """Meters that are read at the end of jobs alone are not silent in between."""
        return None if self.simulation.metered_every_s else 0.0

    @property
    def planned(self) -> bool:
        """Return whether a planner is at work beside placement."""
        return self.policy.is_planned

    @property
    def planner(self) -> PlannerSettings:
        """Return the planner's settings."""
        return PlannerSettings()

    def shared(self, namespace: str = "") -> Settings:
        """Return what all processes share: emulated rounds, few Kafka partitions."""
        return Settings(
            namespace=namespace,
            rounds=RoundSource.BARRIERS,
            kafka_partitions=_KAFKA_PARTITIONS,
        )

    def environment(self, namespace: str) -> dict[str, str]:
        """Return the same settings as the environment of the services' processes."""
        own = self.simulation, self.energy, self.placement, self.planner
        every = (*own, self.shared(namespace))
        return {name: value for each in every for name, value in variables(each).items()}


def _given(**values: Any) -> dict[str, Any]:
    """Without what was not said, which then comes from the environment."""
    return {name: value for name, value in values.items() if value is not None}


def variables(settings: BaseSettings) -> dict[str, str]:
    """Return what was set in these settings, as environment variables."""
    prefix = settings.model_config["env_prefix"]
    given = settings.model_dump(mode="json", include=settings.model_fields_set)
    return {f"{prefix}{name.upper()}": str(value) for name, value in given.items()}
