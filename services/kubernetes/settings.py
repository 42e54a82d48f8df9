"""Settings of the Kubernetes resource manager, COPLACE_KUBERNETES_*, and its clusters' file."""

from pathlib import Path

from pydantic import Field, FilePath
from pydantic_settings import SettingsConfigDict

from services.kubernetes.model.facts import JobTerms
from services.kubernetes.model.nodes import NodeTraits
from shared.process.environment import EnvironmentSettings
from shared.process.node_entries import CLUSTER_NAME, NodesEntry, read_entries


class KubernetesSettings(EnvironmentSettings):
    """Settings that only this process has. Raises WrongSettingsError naming the variable."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_KUBERNETES_", frozen=True)

    site: str = Field(pattern=CLUSTER_NAME, description="As in the ids of jobs")
    clusters_file: FilePath = Field(description="YAML: the clusters, and what their nodes are")
    name: str = Field(
        "kubernetes",
        pattern=CLUSTER_NAME,
        description="Of this process among the resource managers of the site: it reads decisions "
        "under it, and jobs stay among the clusters of one name",
    )
    queue: str = Field(
        "coplace",
        pattern=CLUSTER_NAME,
        description="Jobs whose label coplace.io/queue-name says so",
    )
    account_label: str = Field("", description="Label of a Job that says its account; namespace")
    user_label: str = Field("", description="Label of a Job that says its user; namespace")
    default_walltime_s: float = Field(
        0.0, ge=0, description="Limit of Jobs that have none; 0: they are not taken"
    )
    most_priority: int = Field(
        0, ge=-100, le=100, description="What any user may ask for by coplace.io/priority"
    )
    ingest_address: str = Field("127.0.0.1:50051", description="host:port of ingest")
    placement_address: str = Field("127.0.0.1:50053", description="host:port of placement")
    workers: int = Field(16, ge=1, le=256, description="Jobs that are looked at at once")

    @property
    def architecture(self) -> str:
        """Return what clusters declare and jobs ask for, so that these stay among those."""
        return f"{self.site}/{self.name}"

    def terms(self, clusters: "list[ClusterEntry]") -> JobTerms:
        """Return what Jobs do not say."""
        return JobTerms(
            site=self.site,
            architecture=self.architecture,
            account_label=self.account_label,
            user_label=self.user_label,
            default_walltime_s=self.default_walltime_s,
            node_models={each.name: each.node_model for each in clusters},
            queue=self.queue,
            most_priority=self.most_priority,
        )


class ClusterEntry(NodesEntry):
    """One cluster of the file."""

    kubeconfig: Path | None = Field(None, description="Else that of the pod's service account")
    context: str = Field("", description="Of the kubeconfig; its current one")
    node_selector: str = Field("", description="Labels of the nodes that Jobs may have; all")

    def traits(self, settings: KubernetesSettings) -> NodeTraits:
        """Return what Kubernetes does not know of its nodes."""
        return NodeTraits(
            cluster=self.name,
            site=settings.site,
            node_model=self.node_model,
            pstates_ghz=self.pstates_ghz,
            idle_power_w=self.idle_power_w,
            peak_bandwidth_gbps=self.peak_bandwidth_gbps,
            architecture=settings.architecture,
            tdp_w=self.tdp_w,
            nameplate_power_w=self.nameplate_power_w,
            processors_tdp_w=self.processors_tdp_w,
        )


def clusters_of(path: Path) -> list[ClusterEntry]:
    """Read the clusters that a file names. Raises WrongSettingsError, which says what is wrong
    there."""
    return read_entries(path, ClusterEntry)
