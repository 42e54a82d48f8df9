"""The Slurm that these tests have, twice: eight nodes of two models, and partitions that overlap.

`NODES_OF` and `MODELS` say of its nodes what a watcher has to know, in words of its own.
"""

from pathlib import Path
from typing import Final

from tests.support.slurm import LocalSlurm
from tests.support.slurm_accounting import AccountingSlurm

NODES: Final = """\
NodeName=a[1-4] CPUs=4 RealMemory=4000 Feature=skylake,ib
NodeName=b[1-4] CPUs=8 RealMemory=8000 Feature=rome
PartitionName=small Nodes=a[1-4] Default=YES MaxTime=INFINITE State=UP
PartitionName=big Nodes=b[1-4] MaxTime=INFINITE State=UP
PartitionName=both Nodes=a[2-3],b[1-2] MaxTime=INFINITE State=UP
"""
LICENCES: Final = 4
SELECT: Final = "CR_Core_Memory"
# Slurm looks at what waits every second; 500 jobs that ended are shown until the end.
_MORE: Final = """\
DefMemPerCPU=200
MinJobAge=86400
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
"""
CLUSTERS: Final = """\
clusters:
- {name: gold, nodes: "a[1-4]", node_model: gold-6254, pstates_ghz: [1.2, 3.1], idle_power_w: 110,
   peak_bandwidth_gbps: 140}
- {name: rome, feature: rome, node_model: rome-7742, pstates_ghz: [1.5, 2.2], idle_power_w: 130,
   peak_bandwidth_gbps: 200}
"""
MODELS: Final = (frozenset({"a1", "a2", "a3", "a4"}), frozenset({"b1", "b2", "b3", "b4"}))
NODES_OF: Final = {
    "small": MODELS[0],
    "big": MODELS[1],
    "both": frozenset({"a2", "a3", "b1", "b2"}),
}
FEATURES: Final = {"skylake": MODELS[0], "ib": MODELS[0], "rome": MODELS[1]}
# Kept for jobs that ask for it.
RESERVATION: Final = "kept"
RESERVED: Final = frozenset({"a4"})
# Of all jobs that say no other: MB a core.
MEMORY_MB: Final = 200
_RESERVE: Final = (
    *("scontrol", "create", "reservation", f"ReservationName={RESERVATION}"),
    *("StartTime=now", "Duration=120", "Users=root", "Nodes=a4"),
)


def plain_slurm(folder: Path) -> LocalSlurm:
    """The Slurm without accounts, which starts jobs itself."""
    return LocalSlurm(folder, None, _with_licences(), NODES, SELECT, holds=False)


def held_slurm(folder: Path) -> LocalSlurm:
    """The Slurm without accounts, which holds new jobs for Coplace."""
    return LocalSlurm(folder, None, _with_licences(), NODES, SELECT)


def accounting_slurm(folder: Path, root: Path | None, *, holds: bool) -> AccountingSlurm:
    """The Slurm with slurmdbd and MariaDB; it holds new jobs for Coplace, or starts them."""
    return AccountingSlurm(folder, root, _MORE, NODES, SELECT, holds=holds)


def _with_licences() -> str:
    """Where there are accounts they say it."""
    return f"{_MORE}Licenses=matlab:{LICENCES}\n"


def reserve(slurm: LocalSlurm) -> None:
    """Keep a node for jobs that ask for it."""
    slurm.say(*_RESERVE)
