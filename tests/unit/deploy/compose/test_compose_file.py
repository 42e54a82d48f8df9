"""The compose file and what observes it, held to the code that they run."""

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from coplace.v1.control_pb2 import POWER_SCOPE_CLUSTER
from coplace.v1.jobs_pb2 import JobSubmitted
from prometheus_client import generate_latest
from pydantic_settings import BaseSettings

from deploy.compose import check, images
from lab.demo.options import DemoOptions, variables
from lab.emulator.settings import SimulationSettings
from services.archive.meter import ArchiveMeter
from services.archive.settings import ArchiveSettings
from services.energy.adapters.drift_meter import DriftMeter
from services.energy.api.meter import EnergyApiMeter
from services.energy.api.settings import EnergyApiSettings
from services.energy.drift import Drift
from services.history.meter import HistoryMeter
from services.history.settings import HistorySettings
from services.ingest.meter import IngestMeter
from services.ingest.settings import IngestSettings
from services.kubernetes.adapters.meter import ExecutorMeter, KubernetesMeter
from services.kueue.adapters.meter import KueueMeter
from services.placement.meter import watch
from services.placement.service import Duty
from services.placement.settings import PlacementSettings
from services.planner.meter import watch as watch_searches
from services.prediction.adapters import LEAST_JUDGED, PowerMeter
from services.prediction.job_power import PowerOutcome
from services.pricing.adapters import ChargeMeter
from services.rest.settings import RestSettings, ServiceAddresses
from services.slurm.adapters.meter import SlurmMeter
from services.slurm.settings import SlurmSettings
from services.watch.settings import WatchSettings
from services.webhooks.deliveries import DeliveryBacklog
from services.webhooks.meter import WebhooksMeter
from services.webhooks.settings import WebhooksSettings
from shared.authority.door import Door
from shared.catalogue.event import Event, Publish
from shared.catalogue.policy_settings import PolicySettings
from shared.placement.processor.placement import Placement
from shared.planning.searches import Searches
from shared.power_prediction.online import LearnerProgress, RecentScores
from shared.process.settings import Settings
from shared.process.telemetry import Telemetry
from shared.streams.stages.hooks import Backlog, Tally
from shared.streams.telemetry import hooks_of
from tests.unit.shared.placement.metered_region import read
from tests.unit.shared.placement.region import capped, declared, feed, round_of

ROOT = Path(__file__).parents[4]
SERVICES: Mapping[str, Mapping[str, Any]] = yaml.safe_load(
    (ROOT / "docker-compose.yml").read_text()
)["services"]
OURS = {name for name, service in SERVICES.items() if service["image"] in images.COPLACE.values()}
OBSERVERS = {"otel-collector", "prometheus", "grafana"}


def settings_variables(*settings: type[BaseSettings]) -> set[str]:
    return {
        f"{kind.model_config['env_prefix']}{name}".upper()
        for kind in settings
        for name in kind.model_fields
    }


def test_the_check_leaves_nothing_out_but_what_observes() -> None:
    played = {*check.SERVERS, *check.SERVICES, check.TOPICS, check.EMULATOR}
    assert set(SERVICES) == played | OBSERVERS | {*check.NOT_PLAYED, *check.OF_A_SITE}


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_containers_run_what_exists_without_rights_and_writable_files(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    if name in check.OF_A_SITE:  # as a user of the site
        assert service["user"].endswith(":-64030}")
    else:
        assert "user" not in service, "the image's own user is not root"
    match service["command"]:
        case ["python", "-m", module]:
            path = ROOT / module.replace(".", "/")
            assert path.with_suffix(".py").is_file() or (path / "__main__.py").is_file()
        case command:
            assert command == ["coplace", "topics", "create"]


def test_every_setting_that_the_file_names_is_read() -> None:
    named = {variable for name in OURS for variable in SERVICES[name]["environment"]}
    assert named <= settings_variables(
        *(Settings, IngestSettings, EnergyApiSettings, PlacementSettings, WatchSettings),
        *(SimulationSettings, RestSettings, ServiceAddresses, ArchiveSettings, HistorySettings),
        *(WebhooksSettings, SlurmSettings),
    )


def test_an_emulated_run_in_containers_has_the_settings_of_the_embedded_one() -> None:
    lines = (ROOT / "deploy/compose/demo.env").read_text().splitlines()
    chosen = dict(line.split("=", 1) for line in lines if not line.startswith("#"))
    in_containers = {
        variable: re.sub(
            r"\$\{(\w+):?-(.*)\}", lambda left_open: chosen.get(*left_open.groups()), str(value)
        )
        for name in OURS
        for variable, value in SERVICES[name]["environment"].items()
    }
    embedded = DemoOptions().environment(chosen["COPLACE_NAMESPACE"])
    defaults = variables(PlacementSettings(policy=PlacementSettings().policy))
    assert {
        name: (value, in_containers.get(name))
        for name, value in (embedded.items() - defaults.items())
        if not _is_same(value, in_containers.get(name, ""))
    } == {}


def _is_same(value: str, other: str) -> bool:
    return bool(yaml.safe_load(value.lower()) == yaml.safe_load(other))


def test_images_that_are_replaced_have_the_names_that_the_file_uses() -> None:
    assert SERVICES["kafka"]["image"] == images.KAFKA
    assert SERVICES["redis"]["image"] == images.REDIS


def test_every_mounted_file_is_there() -> None:
    volumes = [volume for service in SERVICES.values() for volume in service.get("volumes", ())]
    sources = [volume.partition(":")[0] for volume in volumes]
    mounted = [source for source in sources if source.startswith("./")]
    assert mounted
    assert [source for source in mounted if not (ROOT / source).exists()] == []


def test_prometheus_asks_every_service() -> None:
    document = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    (discovery,) = document["scrape_configs"][0]["dns_sd_configs"]
    assert set(discovery["names"]) == OURS - {check.TOPICS}
    assert {str(discovery["port"])} == {
        str(SERVICES[name]["environment"]["COPLACE_HTTP_PORT"]) for name in discovery["names"]
    }


def alerts() -> list[dict[str, Any]]:
    rules = yaml.safe_load((ROOT / "helm/coplace/files/alerts.yml").read_text())
    return [rule for group in rules["groups"] for rule in group["rules"]]


def test_the_dashboard_and_alerts_ask_only_for_metrics_that_are_exported() -> None:
    dashboard = (ROOT / "helm/coplace/files/dashboard.json").read_text()
    exported = exported_metrics()
    for text in (dashboard, " ".join(rule["expr"] for rule in alerts())):
        asked = set(re.findall(r"coplace_\w+", text))
        assert len(asked) > 10
        assert [name for name in sorted(asked) if name not in exported] == []


def test_each_alert_has_a_runbook_and_somebody_to_look_at_it() -> None:
    runbook = (ROOT / "docs/how-to/alerts.md").read_text()
    sections = re.findall(r"^## (\w+)$", runbook, re.MULTILINE)
    assert sections == [rule["alert"] for rule in alerts()]
    assert {rule["labels"]["severity"] for rule in alerts()} == {"page", "ticket"}


def test_prometheus_has_the_alerts_where_its_configuration_looks_for_them() -> None:
    volumes = SERVICES["prometheus"]["volumes"]
    assert "./helm/coplace/files/alerts.yml:/etc/prometheus/alerts.yml:ro" in volumes
    configuration = yaml.safe_load((ROOT / "deploy/prometheus/prometheus.yml").read_text())
    assert configuration["rule_files"] == ["alerts.yml"]


def capped_region() -> Placement:
    processor = Placement({}, PolicySettings(), 7.0)
    cluster = declared("p1", 4, nameplate_power_w=700.0)
    feed(processor, [cluster, capped(POWER_SCOPE_CLUSTER, "p1", (0, 2000.0))])
    for number in range(2):
        names = [f"p1-{node:04d}" for node in range(4)]
        feed(processor, [read(60.0 * number, *names, powers_mw=[600_000] * 4)])
        round_of(processor, number)
    return processor


def exported_metrics() -> str:
    """What a process exports once each of its instruments has counted something."""
    telemetry = Telemetry("any", Settings())
    batches = hooks_of(telemetry).meter
    batches.begin("any", 0)
    batches.batch("any", 0, Tally(1, 1, 1, 1, 1, 1, Counter(any=1)), duration_s=1.0)
    batches.watch_backlog("any", lambda: Backlog(1, 1.0))
    telemetry.watch_readiness(lambda: True)
    telemetry.watch_clock(lambda: 0.0)
    ingest = IngestMeter(telemetry.meter)
    ingest.rejected()
    ingest.published(Publish("jobs.events", Event("id", "source", 0, "key", JobSubmitted())))
    energy_api = EnergyApiMeter(telemetry.meter)
    energy_api.rejected()
    energy_api.answered(1, 1, 1.0)
    learner = Mock(drifts={"any": Drift(runs=1)})
    drifts = DriftMeter()
    drifts.watch(learner)
    drifts.register(telemetry.meter)
    kubernetes = KubernetesMeter(telemetry.meter)
    kubernetes.begin("any")
    KueueMeter(telemetry.meter).begin("any")
    slurm = SlurmMeter(telemetry.meter)
    slurm.called("squeue", has_answered=False)
    slurm.watch(dict, lambda: 0, lambda: 0)
    Door("any", Mock(version=1), Mock(), telemetry.meter)
    power = PowerMeter()
    progress = LearnerProgress(judged=LEAST_JUDGED, alpha=0.1)
    power_learner = Mock(progress=progress, scores=RecentScores(0.1, 0.1))
    job_power = Mock(outcomes={PowerOutcome.LEARNED: 1}, known_shapes={"user": 1})
    power.watch(Mock(power_learner=power_learner, job_power=job_power, implausible_readings=1))
    power.register(telemetry.meter)
    charges = ChargeMeter()
    charges.watch(Mock(absurd_energies=1))
    charges.register(telemetry.meter)
    watch_searches(Searches(), telemetry.meter)
    WebhooksMeter(telemetry.meter).observe(DeliveryBacklog, lambda: 0.0, lambda: 0)
    placement = Duty()
    placement.begin(capped_region().queries)
    watch(telemetry.meter, placement)
    ArchiveMeter(telemetry.meter, ["any"]).observe(lambda: 1, lambda: 1)
    HistoryMeter(telemetry.meter).observe(lambda: 1.0, lambda: 1)
    executor = Telemetry("executor", Settings())  # its instruments have names that others have too
    ExecutorMeter(executor.meter, "any")
    return "".join(generate_latest(each.registry).decode() for each in (telemetry, executor))
