"""The stages of all services, and what follows from them for topics and their access."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from services.energy.app import stages as energy_stages
from services.energy.settings import EnergySettings
from services.placement.app import stages as placement_stages
from services.placement.service import Duty
from services.placement.settings import PlacementSettings
from services.planner.app import stages as planner_stages
from services.planner.settings import PlannerSettings
from services.prediction.app import stages as prediction_stages
from services.pricing.app import stages as pricing_stages
from shared.catalogue.access.rules import Access
from shared.catalogue.topics import TopicSpec, load_topics, read_by
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client, ensure_topics
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.stage import Stage

# Those with stages, but for the planner, which need not run.
SERVICES: Final = ("energy", "prediction", "placement", "pricing")
PLANNER: Final = "planner"


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What services are started with beside what all share; None: as the environment says."""

    energy: EnergySettings | None = None
    placement: PlacementSettings | None = None
    planner: PlannerSettings | None = None


def stages_of(
    service: str,
    settings: Settings,
    own: ServiceSettings | None = None,
    duty: Duty | None = None,
) -> list[Stage]:
    """Return what a process of a service runs; `duty` is notified whether placement decides there.

    Raise ValueError for a service without stages.
    """
    own = own or ServiceSettings()
    match service:
        case "energy":
            return energy_stages(settings, own.energy)
        case "prediction":
            return prediction_stages(settings)
        case "placement":
            return placement_stages(settings, own.placement, duty)
        case "pricing":
            return pricing_stages(settings)
        case "planner":
            return planner_stages(settings, own.planner, own.placement)
    known = ", ".join((*SERVICES, PLANNER))
    raise ValueError(f"{service!r} is not a service with stages: known are {known}")


def every_stage(settings: Settings) -> list[Stage]:
    """Return the stages of all services, as their own settings say."""
    return [stage for name in (*SERVICES, PLANNER) for stage in stages_of(name, settings)]


def topics_in_use() -> Mapping[str, TopicSpec]:
    """Return the topics with all stages that read them. In production stages read what they do in
    emulated runs, and more."""
    production = every_stage(Settings(rounds=RoundSource.CLOCK))
    return read_by(load_topics(), {stage.name: stage.inputs for stage in production})


def access(namespace: str = "", clients: Mapping[str, str] | None = None) -> Access:
    """Return what the principals of a deployment may do. Raises UnusableError for clients that
    cannot be."""
    return Access(topics_in_use(), namespace, clients)


def create_topics(deployment: Deployment) -> list[str]:
    """Create what does not exist yet; returns its names on Kafka."""
    client = admin_client(deployment)
    try:
        return ensure_topics(client, deployment, every_stage(deployment.settings))
    finally:
        client.close()
