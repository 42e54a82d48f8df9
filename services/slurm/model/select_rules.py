"""What a Slurm does with what its jobs ask for, by its configuration: pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

_SHARING: Final = frozenset({"cons_tres", "cons_res"})
# As releases say that there is no plugin of a kind, or one that does nothing.
_NO_PLUGIN: Final = frozenset({"", "(null)", "none", "default", "flat"})


@dataclass(frozen=True, slots=True)
class SelectRules:
    """What a Slurm does with what jobs ask for: its select plugin gives cores of nodes that others
    share, or whole nodes; whole cores, or single CPUs; and memory too. Without the plugins of
    topologies, of labels (MCS) and of burst buffers it takes no notice of these."""

    shares_nodes: bool = False
    counts_memory: bool = True
    gives_cores: bool = False
    has_topology: bool = False
    has_labels: bool = False
    has_burst_buffers: bool = False

    @classmethod
    def of_config(cls, config: Mapping[str, str]) -> Self:
        """Return those of a Slurm, as `scontrol show config` has it."""
        plugin = config.get("SelectType", "").rpartition("/")[2]
        parameters = config.get("SelectTypeParameters", "").upper()
        is_shared = plugin in _SHARING and ("CR_CORE" in parameters or "CR_CPU" in parameters)
        return cls(
            is_shared,
            counts_memory="MEMORY" in parameters,
            gives_cores="CR_CPU" not in parameters,
            has_topology=_is_set(config, "TopologyPlugin"),
            has_labels=_is_set(config, "MCSPlugin"),
            has_burst_buffers=_is_set(config, "BurstBufferType"),
        )


def _is_set(config: Mapping[str, str], name: str) -> bool:
    return config.get(name, "").rpartition("/")[2] not in _NO_PLUGIN
