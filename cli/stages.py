"""The stages of all services, and what follows from them for topics and their access."""

from collections.abc import Mapping

from services.energy.app import stages as energy_stages
from services.placement.app import stages as placement_stages
from services.planner.app import stages as planner_stages
from services.prediction.app import stages as prediction_stages
from services.pricing.app import stages as pricing_stages
from shared.catalogue.access.rules import Access
from shared.catalogue.topics import TopicSpec, load_topics, read_by
from shared.domain.rounds import RoundSource
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client, ensure_topics
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.stage import Stage


def every_stage(settings: Settings) -> list[Stage]:
    """Return the stages of all services, as their own settings say."""
    return [
        *energy_stages(settings),
        *prediction_stages(settings),
        *placement_stages(settings),
        *planner_stages(settings),
        *pricing_stages(settings),
    ]


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
