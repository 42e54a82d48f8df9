"""The Kafka of a hub, that of a site, and MirrorMaker 2 between them as the chart sets it up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from cli.kafka_topics import KafkaTopics
from cli.stages import create_topics
from deploy.local.kafka.artifacts import kafka_jars
from deploy.local.ports import free_ports
from deploy.local.program import Program
from deploy.local.servers import LocalServers
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.helm.chart import ROOT, named, render
from tests.support.link import NetworkLink

SITE_PARTITIONS: Final = 2
MIRROR: Final = "mirror"


class HubServers(LocalServers):
    """Servers whose Kafka is reached a second way: over a link."""

    def __init__(self, run_dir: Path) -> None:
        super().__init__(run_dir)
        [self.far_port] = free_ports(1)
        self.link = NetworkLink(self.far_port)

    def _servers(self) -> list[Program]:
        servers = super()._servers()
        config = self.run_dir / "kafka" / "server.properties"
        told = dict(line.split("=", 1) for line in config.read_text().splitlines())
        told["listeners"] += f",LINK://127.0.0.1:{self.far_port}"
        told["advertised.listeners"] += f",LINK://127.0.0.1:{self.link.port}"
        kinds = (f"{each}:PLAINTEXT" for each in ("PLAINTEXT", "CONTROLLER", "LINK"))
        told["listener.security.protocol.map"] = ",".join(kinds)
        config.write_text("".join(f"{key}={value}\n" for key, value in told.items()))
        return servers


def topics_of(servers: LocalServers) -> KafkaTopics:
    settings = Settings(kafka_bootstrap=servers.kafka_bootstrap, kafka_partitions=SITE_PARTITIONS)
    deployment = Deployment.from_settings(settings)
    create_topics(deployment)
    return KafkaTopics(deployment)


def mirror(folder: Path, hub: HubServers, site: LocalServers) -> Program:
    """MirrorMaker 2 by the very files that the chart makes, but for its own port."""
    sets = (
        f"kafka.bootstrap={site.kafka_bootstrap}",
        f"hub.bootstrap=127.0.0.1:{hub.link.port}",
        "hub.securityProtocol=PLAINTEXT,hub.tlsSecret=,hub.sasl.secret=",
    )
    words = [word for each in sets for word in ("--set", each)]
    files = named(render(ROOT / "helm/examples/site.yaml", *words), "ConfigMap")["region-mirror"]
    return mirror_program(folder, files["data"])


def mirror_program(
    folder: Path,
    files: Mapping[str, str],
    mended: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Program:
    """MirrorMaker 2 by files of the chart in which paths are `mended`; on a port of its own."""
    [port] = free_ports(1)
    instead = {"127.0.0.1:8083": f"127.0.0.1:{port}", **(mended or {})}
    for name, text in files.items():
        (folder / name).write_text(_replaced(text, instead))
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    java += [f"-Dlog4j2.configurationFile={folder / 'log4j2.xml'}", "-cp", f"{kafka_jars()}/*"]
    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    told = {"MIRROR_FAILED": str(folder / "failed"), **(environment or {})}
    ready = f"tcp://127.0.0.1:{port}"
    return Program(MIRROR, [*java, main, str(folder / "mm2.properties")], told, ready)


def _replaced(text: str, instead: Mapping[str, str]) -> str:
    for what, ours in instead.items():
        text = text.replace(what, ours)
    return text
