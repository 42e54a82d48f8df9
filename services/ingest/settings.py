"""Settings of ingest, read from COPLACE_INGEST_* environment variables."""

from typing import Final

from pydantic import Field
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings
from shared.process.node_entries import CLUSTER_NAME

_CLUSTER_NAMES: Final = f"^({CLUSTER_NAME[1:-1]}(,{CLUSTER_NAME[1:-1]})*)?$"


class IngestSettings(EnvironmentSettings):
    """Settings that only ingest has."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_INGEST_", frozen=True)

    host: str = Field("127.0.0.1", description="Address that gRPC listens on")
    port: int = Field(0, ge=0, le=65535, description="Its port; 0 takes a free one and logs it")
    most_calls: int = Field(
        1024, gt=0, description="Calls that are answered at once; more are RESOURCE_EXHAUSTED"
    )
    most_streams: int = Field(
        64, gt=0, description="Of these, streams; more are refused as UNAVAILABLE"
    )
    idle_s: float = Field(
        60.0, gt=0, description="Time without an event after which a stream is ended"
    )
    of_site: str = Field(
        "",
        description="The site, where it is one with a hub: a table of authority comes from there, "
        "and none can be declared here",
    )
    remember_days: float = Field(
        30.0,
        gt=0,
        description="For how long after a job's submission and start, under a table of authority, "
        "its owner and its grants are known",
    )
    site_clusters: int = Field(
        32,
        gt=0,
        description="Clusters that a site may have declared, under a table of authority; an "
        "operator of the whole region declares more",
    )
    jobcomp_site: str = Field("site", min_length=1, description="Site of the jobs of slurm.jobcomp")
    jobcomp_cluster: str = Field(
        "",
        description="Cluster of jobs that Slurm names no cluster of, as where it has no accounting "
        "database",
    )
    jobcomp_clusters: str = Field(
        "",
        pattern=_CLUSTER_NAMES,
        description="Where the Slurm is several clusters, or one of another name: their names, in "
        "the order of its file of clusters, with commas between",
    )
    jobcomp_account: str = Field(
        "none", min_length=1, description="Account of jobs that Slurm knows no account of"
    )
    jobcomp_node_model: str = Field("", description="Node model of the clusters behind the topic")

    @property
    def jobcomp_cluster_names(self) -> tuple[str, ...]:
        """Return each cluster of the Slurm once; none: it is one of its own name."""
        return tuple(dict.fromkeys(filter(None, self.jobcomp_clusters.split(","))))
