"""Twenty ordinary lines on Slurm 24.11: as many start beside Coplace as under plain Slurm."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest

from deploy.local.servers import LocalServers
from services.slurm.model.jobs import SlurmJob
from tests.support.slurm import LocalSlurm, built_slurm
from tests.support.slurm_region import connected

_NODES: Final = """\
NodeName=a[1-2] CPUs=4 RealMemory=4000 Feature=skylake,ib
NodeName=b[1-2] CPUs=8 RealMemory=8000 Feature=rome Gres=gpu:2
PartitionName=small Nodes=a[1-2] Default=YES DefaultTime=5 MaxTime=INFINITE State=UP
PartitionName=big Nodes=b[1-2] MaxTime=INFINITE State=UP
"""
_MORE: Final = "DefMemPerCPU=200\nGresTypes=gpu\nLicenses=matlab:4,ansys:2\n"
_GRES: Final = "NodeName=b[1-2] Name=gpu File=/dev/null,/dev/zero\n"
_CLUSTERS: Final = """\
clusters:
- {name: skylake, feature: skylake, node_model: gold-6254, pstates_ghz: [1.2, 3.1],
   idle_power_w: 110, peak_bandwidth_gbps: 140}
- {name: rome, node_model: rome-7742, pstates_ghz: [1.5, 2.2], idle_power_w: 130,
   peak_bandwidth_gbps: 200}
"""
# A dependency is on the line before.
_LINES: Final = """\
-n1 -t2
-n1 -t2 -p big
-n2 -t2
-n4 -t2 -p big
-N2 -t2 -p big
--array=1-3 -t2
-n1 -t2 -p small : -n1 -p big
-n1 -t2 --exclusive
-n1 -t2 -p big --gres=gpu:1
-n1 -t2 -C rome -p big
-n1 -t2 --mem=1000
-n1 -t2
-n1 -t2 --dependency=afterok:{before}
-n1 -t2 --begin=now+20
-n1 -t2 -L matlab:1
-n1 -t2 --comment=app_id=lu.C
-n1 -t2 -J größe -p big,small
-N1-2 -n2 -t2 -p big
-n1 -t2 -w a2
-n1 -t2 --deadline=now+30minutes --time-min=1
""".splitlines()
_WITHIN_S: Final = 120.0
_LASTS_S: Final = 20

pytestmark = pytest.mark.thorough


@contextmanager
def _folder(root: Path) -> Iterator[Path]:
    with TemporaryDirectory(dir=root / "tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        (folder / "gres.conf").write_text(_GRES)
        yield folder


def _submitted(slurms: Sequence[LocalSlurm]) -> list[list[int]]:
    """Slurm's numbers of the lines, on each."""
    numbers: list[list[int]] = [[] for _ in slurms]
    for line in _LINES:
        for slurm, before in zip(slurms, numbers, strict=True):
            options = line.format(before=before[-1] if before else 0).split()
            said = slurm.say(
                *("sbatch", "--parsable", "--output=/dev/null"),
                *(*options, f"--wrap=sleep {_LASTS_S}"),
            )
            before.append(int(said.partition(";")[0]))
    return numbers


def _started(slurm: LocalSlurm, numbers: Sequence[int]) -> dict[int, int]:
    """Which of the lines have started, and when."""
    shown = json.loads(slurm.say("squeue", "--states=all", "--json"))["jobs"]
    jobs = [job for job in map(SlurmJob, shown) if job.has_nodes or job.has_run]
    began_s = {number: job.asked("start_time") for job in jobs for number in job.numbers}
    return {at: began_s[each] for at, each in enumerate(numbers) if each in began_s}


def test_of_twenty_lines_on_slurm_24_11_as_many_start_as_under_plain_slurm(
    servers: LocalServers,
) -> None:
    root = built_slurm("24.11")
    with _folder(root) as alone, _folder(root) as beside:
        held = LocalSlurm(beside, root, _MORE, _NODES, "CR_Core_Memory")
        plain = LocalSlurm(alone, root, _MORE, _NODES, "CR_Core_Memory", holds=False)
        with plain, connected(servers, held, f"{beside.name}-", _CLUSTERS) as region:
            region.until(region.is_ready, "the clusters")
            both, began_s = (plain, region.slurm), time.time()
            numbers = _submitted(both)
            while time.time() < began_s + _WITHIN_S:
                found = [_started(*each) for each in zip(both, numbers, strict=True)]
                if all(len(each) == len(_LINES) for each in found):
                    break
                time.sleep(1.0)
            for name, each in zip(("plain", "Coplace"), found, strict=True):
                last_s = max(each.values(), default=0) - began_s
                print(f"{name}: {len(each)} of {len(_LINES)}, the last after {last_s:.0f} s")
            assert found[1].keys() >= found[0].keys()
