"""Settings of the executor, COPLACE_EXECUTOR_*."""

from pathlib import Path
from typing import Final

from pydantic import Field, FilePath
from pydantic_settings import SettingsConfigDict

from shared.process.environment import EnvironmentSettings
from shared.process.node_entries import CLUSTER_NAME

NAMESPACE: Final = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"


class ExecutorSettings(EnvironmentSettings):
    """Settings that only this process has. Raises WrongSettingsError naming the variable."""

    model_config = SettingsConfigDict(env_prefix="COPLACE_EXECUTOR_", frozen=True)

    cluster: str = Field(pattern=CLUSTER_NAME, description="As the home cluster's file has it")
    namespace: str = Field(
        pattern=NAMESPACE, description="Of its assignments, in the home cluster: `executor` there"
    )
    home_kubeconfig: FilePath = Field(description="Of the home cluster")
    home_context: str = Field("", description="Of that kubeconfig; its current one")
    kubeconfig: Path | None = Field(
        None, description="Of its own cluster; else the pod's service account"
    )
    context: str = Field("", description="Of that kubeconfig; its current one")
    node_selector: str = Field("", description="Labels of the nodes that Jobs may have; all")
    kueue: bool = Field(
        default=False, description="Follow the Kueue of its own cluster, and answer its check"
    )
    workers: int = Field(64, ge=1, le=256, description="Jobs that are looked at at once")
