"""Settings of the adapter of Kueue, COPLACE_KUEUE_*, and its clusters' file."""

from pathlib import Path
from typing import Final

from pydantic import ConfigDict, Field, FilePath
from pydantic_settings import SettingsConfigDict

from services.kueue.model.facts import KueueTerms
from services.kueue.processor.seen import WaitLimit
from shared.kubernetes.clusters import ClusterEntry
from shared.kubernetes.leadership import LeaderSettings
from shared.kubernetes.leases import LeaseName
from shared.process.node_entries import CLUSTER_NAME, ClustersFile, read_clusters_file
from shared.process.plain_numbers import PlainModel

NAMESPACE: Final = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"


class KueueSettings(LeaderSettings):
    """Settings that only this process has. Raises WrongSettingsError naming the variable."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_KUEUE_", frozen=True)

    site: str = Field(pattern=CLUSTER_NAME, description="As in the ids of jobs")
    clusters_file: FilePath = Field(
        description="YAML: the clusters, what their nodes are, and the managers of MultiKueue"
    )
    name: str = Field(
        "kueue",
        pattern=CLUSTER_NAME,
        description="Of this process among the resource managers of the site: it reads decisions "
        "under it, and Workloads stay among the clusters of one name",
    )
    default_walltime_s: float = Field(
        86400.0,
        gt=0,
        description="Limit of Workloads that have no maximumExecutionTimeSeconds: nothing ends "
        "them then, and others are planned behind it",
    )
    waits_s: float = Field(
        5.0,
        ge=0.5,
        le=8,
        description="For how long a Workload keeps its quota without a start; then its check "
        "answers Retry",
    )
    ingest_address: str = Field("127.0.0.1:50051", description="host:port of ingest")
    placement_address: str = Field("127.0.0.1:50053", description="host:port of placement")
    lease_namespace: str = Field(
        "default",
        pattern=NAMESPACE,
        description="Of the Lease that says that Coplace is there, where the first manager is, "
        "else the first cluster",
    )
    silence_after_s: float = Field(
        300.0,
        ge=30,
        le=86400,
        description="For how long Coplace may be silent before services.kueue.silence gives "
        "Workloads to Kueue's own rules",
    )
    workers: int = Field(16, ge=1, le=256, description="Workloads that are looked at at once")

    @property
    def architecture(self) -> str:
        """Return what clusters declare and Workloads ask for, so that these stay among those."""
        return f"{self.site}/{self.name}"

    @property
    def lease(self) -> LeaseName:
        """Return the Lease that says that Coplace is there."""
        return LeaseName(self.lease_namespace, f"coplace-{self.name.lower()}")

    @property
    def patience(self) -> WaitLimit:
        """Return for how long a Workload may keep its quota while it waits."""
        return WaitLimit(round(self.waits_s * 1e6))

    def terms(self, clusters: list[ClusterEntry]) -> KueueTerms:
        """Return what Workloads do not say."""
        return KueueTerms(
            site=self.site,
            architecture=self.architecture,
            default_walltime_s=self.default_walltime_s,
            node_models={each.name: each.node_model for each in clusters},
            top_ghz={each.name: max(each.pstates_ghz) for each in clusters},
        )


class ManagerEntry(PlainModel):
    """A manager of MultiKueue, which has no nodes of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=CLUSTER_NAME, description="As in the ids of its jobs")
    kubeconfig: Path | None = Field(None, description="Else that of the pod's service account")
    context: str = Field("", description="Of the kubeconfig; its current one")


class KueueClusters(ClustersFile[ClusterEntry]):
    """The clusters' file: workers are called as their MultiKueueCluster."""

    managers: list[ManagerEntry] = Field([], description="Of MultiKueue; none")

    @property
    def servers(self) -> "list[ClusterEntry | ManagerEntry]":
        """Return all that has an API server."""
        return [*self.clusters, *self.managers]

    @property
    def home(self) -> str:
        """Return the API server that has the Lease: the first manager, else the first cluster."""
        servers: list[ClusterEntry | ManagerEntry] = [*self.managers, *self.clusters]
        return servers[0].name

    @property
    def names(self) -> list[str]:
        """Return the names in it, each of which may be there once."""
        return [each.name for each in self.servers]


def clusters_of(path: Path) -> KueueClusters:
    """Read the clusters that a file names. Raises WrongSettingsError, which says what is wrong
    there."""
    return read_clusters_file(path, KueueClusters)
