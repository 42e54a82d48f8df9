"""What is installed: a hub and its sites, each a release in a namespace of its own, and the volumes
and programs beside them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deploy.compose import images

HUB: Final = "hub"
# The clusters at each site.
SITES: Final[Mapping[str, Sequence[str]]] = {"north": ["p1"], "south": ["p2"]}
RELEASES: Final = (HUB, *SITES)
KAFKA_PARTITIONS: Final = 2
EMULATED: Final = "emulated"
# Of the emulator and the report, which are no part of a release.
OUTSIDE: Final = "outside"
# All requests together have to fit two cores; Kafka and its mirrors keep theirs, which also say who
# goes first where there is too little.
_SHARE: Final[Mapping[str, Any]] = {"resources": {"requests": {"cpu": "20m"}}}
_OF_HUB: Final = (
    *("energy", "appdbCache", "energyApi", "prediction", "placement", "watch"),
    *("pricing", "accounts"),
)


@dataclass(frozen=True, slots=True)
class Server:
    """One that comes with a release, and keeps its data."""

    release: str
    name: str

    def volume(self, folder: Path) -> Mapping[str, Any]:
        """The volume that its claim finds."""
        claim = f"data-{self.release}-{self.name}-0"
        return {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"{self.release}-{self.name}"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "hostPath": {"path": str(folder)},
                "claimRef": {"namespace": self.release, "name": claim},
            },
        }


SERVERS: Final = (Server(HUB, "redis"), *(Server(release, "kafka") for release in RELEASES))


def kafka(release: str) -> str:
    """The brokers of a release, from any namespace."""
    return f"{release}-kafka.{release}.svc:9092"


def ingest(release: str) -> str:
    """Its way in, from any namespace."""
    return f"{release}-ingest.{release}.svc.cluster.local:50051"


def values(release: str) -> dict[str, Any]:
    """A small release with servers of its own, of images that the node has."""
    return _hub() if release == HUB else site(release)


def _hub() -> dict[str, Any]:
    services: dict[str, Any] = {name: dict(_SHARE) for name in _OF_HUB}
    services["energyApi"]["replicas"] = 1
    services["watch"]["replicas"] = 1
    services["pricing"]["replicas"] = 2
    own: dict[str, Any] = {"own": {"enabled": True, "storage": "1Gi", **_SHARE}}
    mirrors = [{"namespaceSelector": {"matchLabels": {"role": "site"}}}]
    return {
        **_common(services),
        "role": "hub",
        "redis": own,
        "networkPolicy": {"kafkaClients": mirrors},
    }


def site(name: str) -> dict[str, Any]:
    """That of a site of this name."""
    return {
        **_common({}),
        "role": "site",
        "site": name,
        "hub": {"bootstrap": kafka(HUB)},
    }


def _common(services: Mapping[str, Any]) -> dict[str, Any]:
    own = {"enabled": True, "storage": "1Gi"}
    way_in = {"ingest": {"replicas": 1, **_SHARE}, "ingestJobcomp": {"enabled": False}}
    return {
        "image": {"repository": "localhost/coplace", "tag": "latest", "pullPolicy": "Never"},
        "kafka": {"partitions": KAFKA_PARTITIONS, "own": own},
        "services": {**way_in, **services},
    }


def emulated() -> dict[str, Any]:
    """Values that go by the emulator's rounds, on topics of their own."""
    return {"topicPrefix": EMULATED, "env": {"COPLACE_ROUNDS": "barriers"}}


def namespaces() -> Iterator[Mapping[str, Any]]:
    """Those of the releases take restricted pods alone."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    for name in RELEASES:
        yield _namespace(name, {**restricted, "role": "site" if name in SITES else "hub"})
    yield _namespace(OUTSIDE, {})


def _namespace(name: str, labels: Mapping[str, str]) -> Mapping[str, Any]:
    metadata = {"name": name, "labels": dict(labels)}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def program(
    name: str, command: Sequence[str], env: Mapping[str, str], out: Path
) -> Mapping[str, Any]:
    """A program of the image that speaks to the releases, with a folder of this machine."""
    settings = {
        "COPLACE_KAFKA_BOOTSTRAP": kafka(HUB),
        "COPLACE_REDIS_URL": f"redis://{HUB}-redis.{HUB}.svc:6379/0",
        "COPLACE_KAFKA_PARTITIONS": str(KAFKA_PARTITIONS),
        "COPLACE_NAMESPACE": EMULATED,
        "COPLACE_ROUNDS": "barriers",
        **env,
    }
    container = {
        "name": name,
        "image": images.COPLACE["lab"],
        "imagePullPolicy": "Never",
        "command": list(command),
        "env": [{"name": key, "value": value} for key, value in settings.items()],
        "volumeMounts": [{"name": "out", "mountPath": "/out"}],
    }
    pod = {
        "restartPolicy": "Never",
        "containers": [container],
        "volumes": [{"name": "out", "hostPath": {"path": str(out)}}],
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": OUTSIDE, "labels": {"job": name}},
        "spec": {"backoffLimit": 0, "template": {"spec": pod}},
    }
