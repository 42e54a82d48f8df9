"""What a file of clusters says of the nodes of one, which their resource manager does not know."""

from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from pydantic import ConfigDict, Field, ValidationError

from coplace_client.errors import UnusableError, WrongSettingsError
from shared.process.plain_numbers import PlainModel
from shared.process.user_files import read_yaml

CLUSTER_NAME: Final = r"^[a-zA-Z0-9][a-zA-Z0-9._-]{0,62}$"
_Entry = TypeVar("_Entry", bound="NodesEntry")


class NodesEntry(PlainModel):
    """One cluster of the file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern=CLUSTER_NAME, description="As Coplace knows it")
    node_model: str = Field(min_length=1)
    pstates_ghz: tuple[float, ...] = Field(min_length=1, description="Ascending")
    idle_power_w: float
    peak_bandwidth_gbps: float
    tdp_w: dict[str, float] = Field(
        {}, description="Thermal design power of one accelerator, by resource, W"
    )
    nameplate_power_w: float = Field(
        0.0,
        description="What a node draws at most: counts under caps where nothing says what a job "
        "draws; 0: unknown",
    )
    processors_tdp_w: float = Field(
        0.0,
        description="Thermal design power of a node's processors together, which what it draws at "
        "most follows from without `nameplate_power_w`; 0: unknown",
    )


class ClustersFile(PlainModel, Generic[_Entry]):
    """A file of clusters."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    clusters: list[_Entry] = Field(min_length=1)

    @property
    def names(self) -> list[str]:
        """Return the names in it, each of which may be there once."""
        return [each.name for each in self.clusters]


_File = TypeVar("_File", bound=ClustersFile[Any])


def read_entries(path: Path, of: type[_Entry]) -> list[_Entry]:
    """Read the clusters that a file names. Raises WrongSettingsError, which says what is wrong
    there."""
    model: type[ClustersFile[_Entry]] = ClustersFile[of]  # type: ignore[valid-type]
    return read_clusters_file(path, model).clusters


def read_clusters_file(path: Path, model: type[_File]) -> _File:
    """Read a file of clusters. Raises WrongSettingsError, which says what is wrong there."""
    try:
        found = model.model_validate(read_yaml(path) or {})
    except (OSError, UnusableError) as error:
        raise WrongSettingsError(f"{path}: {error}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise WrongSettingsError(f"{path}: {where}: {first['msg']}") from None
    names = found.names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise WrongSettingsError(f"{path}: clusters: {', '.join(twice)} is listed twice")
    return found
