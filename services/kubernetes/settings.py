"""Settings of the Kubernetes resource manager, COPLACE_KUBERNETES_*, and its clusters' file."""

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, FilePath, model_validator
from pydantic_settings import SettingsConfigDict

from coplace_client.errors import WrongSettingsError
from services.kubernetes.model.facts import JobTerms
from shared.kubernetes.clusters import ClusterEntry
from shared.kubernetes.leadership import LeaderSettings
from shared.process.node_entries import CLUSTER_NAME, read_entries

_DNS_LABEL: Final = r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$"


class JobClusterEntry(ClusterEntry):
    """One cluster of the file, with its own way for copies of Jobs."""

    kueue_queue: str = Field(
        "",
        pattern=_DNS_LABEL,
        description="LocalQueue, in the namespace of each Job, by which copies pass the Kueue "
        "there; they pass none",
    )
    executor: str = Field(
        "",
        pattern=_DNS_LABEL,
        description="Namespace, in the first cluster of the file, of the executor that runs copies "
        "there; none does",
    )

    @model_validator(mode="after")
    def _has_one_way(self) -> Self:
        """Raise ValueError for a cluster with an executor that is reached otherwise too."""
        others = ("kubeconfig", "context", "node_selector")
        if self.executor and (told := [name for name in others if getattr(self, name)]):
            raise ValueError(f"{told[0]} must not be set beside executor: its own settings say it")
        return self


class KubernetesSettings(LeaderSettings):
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
        86_400.0, ge=0, description="Limit of Jobs that have none; 0: they are not taken"
    )
    default_cpu: Decimal = Field(Decimal(1), gt=0, description="CPUs of a pod that requests none")
    ready_within_s: float = Field(
        600.0, ge=0, description="A Job whose pods are not all ready by then waits again; 0: never"
    )
    priority_classes: dict[str, Annotated[int, Field(ge=-100, le=100)]] = Field(
        default_factory=dict,
        description="JSON: the priority of each PriorityClass, from -100 to 100",
    )
    most_priority: int = Field(
        0, ge=-100, le=100, description="What any user may ask for by coplace.io/priority"
    )
    ingest_address: str = Field("127.0.0.1:50051", description="host:port of ingest")
    placement_address: str = Field("127.0.0.1:50053", description="host:port of placement")
    workers: int = Field(64, ge=1, le=256, description="Jobs that are looked at at once")

    @property
    def architecture(self) -> str:
        """Return what clusters declare and jobs ask for, so that these stay among those."""
        return f"{self.site}/{self.name}"

    def terms(self, clusters: list[JobClusterEntry]) -> JobTerms:
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
            default_cpu=Fraction(self.default_cpu),
            ready_within_s=self.ready_within_s,
            priority_classes=self.priority_classes,
            kueue_queues={each.name: each.kueue_queue for each in clusters if each.kueue_queue},
        )


def clusters_of(path: Path) -> list[JobClusterEntry]:
    """Read the clusters that a file names. Raises WrongSettingsError, which says what is wrong
    there."""
    found = read_entries(path, JobClusterEntry)
    if found[0].executor:
        problem = "the first cluster keeps the assignments of others: it must have no executor"
        raise WrongSettingsError(f"{path}: clusters.0.executor: {problem}")
    namespaces = [each.executor for each in found if each.executor]
    if twice := sorted({name for name in namespaces if namespaces.count(name) > 1}):
        raise WrongSettingsError(
            f"{path}: executor: {twice[0]} is of two clusters: name one of each"
        )
    return found
