"""The topics of a deployment, with the changelogs of every stage."""

from services.energy.app import stages as energy_stages
from services.placement.app import stages as placement_stages
from services.planner.app import stages as planner_stages
from services.prediction.app import stages as prediction_stages
from services.pricing.app import stages as pricing_stages
from shared.process.settings import Settings
from shared.streams.on_kafka.admin import admin_client, ensure_topics
from shared.streams.on_kafka.deployment import Deployment
from shared.streams.stages.stage import Stage


def every_stage(settings: Settings) -> list[Stage]:
    """The stages of all services, as their own settings say."""
    return [
        *energy_stages(settings),
        *prediction_stages(settings),
        *placement_stages(settings),
        *planner_stages(settings),
        *pricing_stages(settings),
    ]


def create_topics(deployment: Deployment) -> list[str]:
    """Create what does not exist yet; returns its names on Kafka."""
    client = admin_client(deployment)
    try:
        return ensure_topics(client, deployment, every_stage(deployment.settings))
    finally:
        client.close()
