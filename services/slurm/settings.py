"""Settings of the resource manager of a Slurm, COPLACE_SLURM_*, and its clusters' file."""

from pathlib import Path
from typing import Self

from pydantic import Field, FilePath, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from coplace_client.errors import RejectedError, WrongSettingsError
from coplace_client.facts import SAYS_EVERY_S
from services.slurm.model.clusters import ClusterShare, NodeHardware
from shared.domain.hostlist import expand
from shared.process.environment import EnvironmentSettings
from shared.process.node_entries import CLUSTER_NAME, NodesEntry, read_entries


class SlurmSettings(EnvironmentSettings):
    """Settings that only this process has. Raises WrongSettingsError naming the variable. Which
    Slurm it is says SLURM_CONF, as for Slurm's own commands."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_SLURM_", frozen=True)

    site: str = Field(pattern=CLUSTER_NAME, description="As in the ids of jobs")
    clusters_file: FilePath = Field(description="YAML: the clusters, and what their nodes are")
    cursor_file: Path = Field(
        Path("/var/lib/coplace-slurm/cursor"),
        description="How far decisions are obeyed: without it those that are kept are read again",
    )
    terms_file: Path | None = Field(
        None,
        description="What was said of jobs that wait: without it they are submitted anew at a"
        " start; by itself `terms` beside the cursor",
    )
    ended_dir: Path = Field(
        Path("/var/lib/coplace-slurm/ended"),
        description="Where jobcomp.lua keeps the runs that ended, until they are published",
    )
    submitted_file: Path = Field(
        Path("/var/lib/coplace-slurm/submitted"),
        description="Its time is when job_submit.lua last saw a job: then Slurm is looked at",
    )
    heartbeat_file: Path | None = Field(
        None,
        description="Its time is when Coplace last spoke: too long ago, jobs go back to Slurm;"
        " without it `heartbeat` beside the cursor",
    )
    account: str = Field("none", min_length=1, description="Of jobs without one")
    architecture: str = Field(
        "", description="Jobs go to clusters that declare the same; empty: the Slurm's name"
    )
    ingest_address: str = Field("127.0.0.1:50051", description="host:port of ingest")
    placement_address: str = Field("127.0.0.1:50053", description="host:port of placement")
    watch_address: str = Field("127.0.0.1:50054", description="host:port of watch")
    looks_every_s: float = Field(
        1.0, ge=0.1, description="How often jobs are looked at while some come, start or end"
    )
    idle_looks_every_s: float = Field(3.0, ge=0.1, description="How often otherwise")
    speaks_every_s: float = Field(
        SAYS_EVERY_S, ge=0.5, le=SAYS_EVERY_S, description="How often it says that it is there"
    )
    notes_every_s: float = Field(
        30.0, ge=0.5, description="How often it notes in jobs why they wait, where that changed"
    )
    notes_per_minute: int = Field(
        30, ge=0, le=6_000, description="Commands of Slurm for such notes; 0: none are made"
    )
    nodes_every_s: float = Field(20.0, ge=0.1, description="How often nodes are looked at")
    drains_every_s: float = Field(
        60.0, ge=1, description="How often drained nodes are compared with what Coplace has"
    )
    declares_every_s: float = Field(
        60.0, ge=1, description="How often nodes and partitions are compared with the declaration"
    )
    limits_every_s: float = Field(
        30.0, ge=1, description="How often limits of QOS and associations are read"
    )
    order_every_s: float = Field(
        120.0, ge=1, description="How often fair shares and priorities are read, while jobs wait"
    )
    reorders_every_s: float = Field(
        15.0, ge=0.5, description="How often it is said which jobs have another place in the order"
    )

    @property
    def heartbeat(self) -> Path:
        """Return the file whose time is when Coplace last spoke."""
        return self.heartbeat_file or self.cursor_file.with_name("heartbeat")

    @property
    def terms(self) -> Path:
        """Return the file of what was said of jobs that wait."""
        return self.terms_file or self.cursor_file.with_name("terms")


class SlurmClusterEntry(NodesEntry):
    """One cluster of the file, and which nodes of the Slurm it is: those of a host list, of a
    partition, or with a feature; without any of these all that no cluster before it has."""

    nodes: str = Field("", description="Host list, such as n[001-064]")
    partition: str = Field("", description="Partition whose nodes it has")
    feature: str = Field("", description="Feature whose nodes it has")
    boot_s: float = Field(
        0.0, ge=0, description="For how long a node boots that is off, s; 0: ResumeTimeout"
    )
    boot_energy_j: float = Field(
        0.0, ge=0, description="What a node uses while it boots, J; 0: unknown"
    )

    @field_validator("nodes")
    @classmethod
    def _is_host_list(cls, value: str) -> str:
        try:
            expand(value)
        except RejectedError as error:
            raise ValueError(str(error)) from None
        return value

    @model_validator(mode="after")
    def _says_one_thing(self) -> Self:
        if sum(map(bool, (self.nodes, self.partition, self.feature))) > 1:
            raise ValueError("only one of nodes, partition and feature may be set")
        return self

    def share(self) -> ClusterShare:
        """Return which nodes it has, and what Slurm does not know of them."""
        hardware = NodeHardware(
            self.node_model,
            self.pstates_ghz,
            self.idle_power_w,
            self.peak_bandwidth_gbps,
            tdp_w=self.tdp_w,
            nameplate_power_w=self.nameplate_power_w,
            processors_tdp_w=self.processors_tdp_w,
            boot_s=self.boot_s,
            boot_energy_j=self.boot_energy_j,
        )
        names = frozenset(expand(self.nodes)) if self.nodes else frozenset()
        return ClusterShare(self.name, hardware, names, self.partition, self.feature)


def shares_of(path: Path) -> list[ClusterShare]:
    """Read the clusters that a file names. Raises WrongSettingsError, which says what is wrong
    there."""
    found = read_entries(path, SlurmClusterEntry)
    rest = [each.name for each in found if not (each.nodes or each.partition or each.feature)]
    if rest not in ([], [found[-1].name]):
        raise WrongSettingsError(
            f"{path}: clusters: {rest[0]} names no nodes and so takes all: move it to the end"
        )
    return [each.share() for each in found]
