"""Which nodes of a Slurm are switched off to save power, and which boot: pure.

https://slurm.schedmd.com/power_save.html: Slurm switches a node off that was idle for a while, and
boots it when it gives it to a job. One that does not register within ResumeTimeout is down.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from coplace.v1.control_pb2 import NodePowerDeclared

from services.slurm.model.clusters import NodeHardware, is_node
from shared.domain.folding import fold

# As releases name it in `sinfo --json`: POWER_SAVING is of those before 21.08.
_OFF: Final = frozenset({"powered_down", "powering_down", "power_down", "power_saving"})
_BOOTS: Final = frozenset({"powering_up", "power_up"})
_SECONDS: Final = re.compile(r"\s*(\d{1,9})\b")
# ResumeTimeout where nobody says another one, s.
_USUAL_BOOT_S: Final = 60.0


class Boot(NamedTuple):
    """For how long a node boots at most, s, and what it uses meanwhile, J; 0: nobody said."""

    boot_s: float = _USUAL_BOOT_S
    boot_energy_j: float = 0.0

    @classmethod
    def of(cls, config: Mapping[str, str], hardware: NodeHardware) -> "Boot":
        """Return it as the site says it, or by the time that Slurm gives a node."""
        found = _SECONDS.match(config.get("ResumeTimeout", ""))
        given_s = float(found[1]) if found else _USUAL_BOOT_S
        return cls(hardware.boot_s or given_s, hardware.boot_energy_j)


def words_of(node: Mapping[str, Any]) -> set[str]:
    """Return a node's state with its flags; later versions give both in one list."""
    state, flags = node.get("state"), node.get("state_flags")
    words = [*(state if isinstance(state, list) else [state])]
    words += flags if isinstance(flags, list) else []
    return {word.lower() for word in words if isinstance(word, str)}


def is_switched(node: Mapping[str, Any]) -> bool:
    """Return whether a node is off or boots: it does not respond, and takes jobs."""
    return not words_of(node).isdisjoint(_OFF | _BOOTS)


def power_of(shown: Iterable[Mapping[str, Any]], cluster: str, boot: Boot) -> NodePowerDeclared:
    """Return which nodes of a cluster are off and which boot."""
    states = {str(node["name"]): words_of(node) for node in shown if is_node(node)}
    booting = [name for name, words in states.items() if not words.isdisjoint(_BOOTS)]
    off = [
        name
        for name, words in states.items()
        if words.isdisjoint(_BOOTS) and not words.isdisjoint(_OFF)
    ]
    return NodePowerDeclared(
        cluster=cluster,
        off=fold(off),
        booting=fold(booting),
        boot_s=boot.boot_s,
        boot_energy_j=boot.boot_energy_j,
    )
