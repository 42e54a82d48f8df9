"""Each option of `sbatch` that says what a job needs or when it may start, on two Slurms of equal
nodes: plain, and with Coplace. A job gets what plain Slurm gives it, or is held with a reason."""

import re
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from deploy.local.servers import LocalServers
from services.slurm.adapters.commands import Slurm
from services.slurm.model.fields import FIELDS
from services.slurm.model.jobs import SlurmJob
from shared.domain.hostlist import expand
from tests.support.slurm import LocalSlurm, require_installed
from tests.support.slurm_region import Region, connected

NODES: Final = """\
GresTypes=gpu
NodeName=n[1-2] CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=4000 TmpDisk=1000 \
Feature=rome,ib Gres=gpu:2
NodeName=n[3-4] CPUs=8 Sockets=2 CoresPerSocket=2 ThreadsPerCore=2 RealMemory=4000 Feature=milan
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=two Nodes=n[1-2] MaxTime=60 State=UP OverSubscribe=YES
"""
GRES: Final = "NodeName=n[1-2] Name=gpu File=/dev/null\nNodeName=n[1-2] Name=gpu File=/dev/zero\n"
MORE: Final = """\
DefMemPerCPU=100
Licenses=matlab:2
SchedulerParameters=sched_interval=1,batch_sched_delay=0,bf_interval=1
"""
# A plugin that leaves jobs as they are, in place of the one that holds them.
PLAIN: Final = "JobSubmitPlugins=throttle\n"
OPTIONS: Final = tuple(
    line.split()
    for line in """
--ntasks=1
--nodes=2
--nodes=1-3
--nodes=2-4 --use-min-nodes
--ntasks=3
--ntasks=12
--ntasks=20
--ntasks=5 --nodes=2
--ntasks=4 --ntasks-per-node=2
--nodes=2 --ntasks-per-node=3
--ntasks=2 --cpus-per-task=3
--cpus-per-task=8
--ntasks=12 --overcommit
--ntasks=2 --ntasks-per-core=1
--ntasks=4 --ntasks-per-socket=1
--ntasks=4 --spread-job
--ntasks=3 --distribution=cyclic:cyclic
--ntasks=2 --hint=nomultithread
--ntasks=2 --hint=compute_bound
--sockets-per-node=2
--cores-per-socket=2 --ntasks=2
--threads-per-core=1 --ntasks=3
--threads-per-core=2 --ntasks=3
--extra-node-info=2:2:2
--extra-node-info=1:2:1
--mincpus=6
--mincpus=6 --nodes=2
--mem=1000
--mem=0
--mem-per-cpu=500
--mem-per-cpu=3000
--ntasks=2 --mem-per-cpu=900 --nodes=2
--tmp=500
--exclusive
--exclusive=user
--exclusive=mcs
--oversubscribe
--oversubscribe --partition=two
--core-spec=1
--thread-spec=1
--contiguous
--contiguous --nodes=2
--constraint=rome
--constraint=rome|milan
--constraint=[rome|milan]
--constraint=rome*1
--nodes=2 --constraint=[rome*1&milan*1]
--nodes=2 --constraint=[rome|milan]
--constraint=rome&ib
--constraint=rome|milan --batch=milan
--prefer=milan
--prefer=milan --constraint=rome
--nodelist=n3
--nodelist=n2,n3
--nodelist=n4 --nodes=2
--exclude=n[1-3]
--nodefile={folder}/hosts
--gres=gpu:1
--gres=gpu:2
--gpus=2
--gpus=3
--gpus=2 --nodes=2
--gpus-per-node=1 --nodes=2
--gpus-per-task=1 --ntasks=2
--gpus-per-socket=1 --sockets-per-node=1
--gpus=1 --cpus-per-gpu=3
--gpus=1 --mem-per-gpu=600
--gpus=1 --gpu-bind=closest --gpu-freq=low
--gres=gpu:1 --gres-flags=enforce-binding
--licenses=matlab:1
--licenses=matlab:2
--time=3
--time=30 --time-min=5
--deadline=now+20minutes --time=2
--begin=now+4
--partition=two
--partition=two,all
--switches=1
--switches=1@00:00:05 --nodes=2
--nice
--nice=500
--priority=1000
--cpu-freq=1200000
--signal=USR1@10
--profile=none
--power=level
--reboot
--delay-boot=1
--no-requeue
--requeue
--no-kill
--wckey=x
--comment=app_id=lu.C
--mail-type=END --mail-user=nobody
--mcs-label=x
--network=x
--container=/nowhere
--bb=capacity=1
--dependency=singleton --job-name=one
--array=1-2
--array=3
--cluster-constraint=x
--acctg-freq=30
--get-user-env
--export=NONE
--open-mode=append
--propagate=NONE
--uid=0 --gid=0
--hold
--kill-on-invalid-dep=yes
""".splitlines()
    if line
)
_WITHIN_S: Final = 400.0


# Without one of these plain Slurm takes nodes by what is free at that moment, and Coplace as few as
# will do.
_FIXED: Final = ("--nodes=2", "--nodelist", "--nodefile", "--ntasks-per-node")
HELD: Final = frozenset(
    {
        *("--contiguous --nodes=2", "--constraint=rome*1", "--hold"),
        "--nodes=2 --constraint=[rome*1&milan*1]",
        "--nodes=2 --constraint=[rome|milan]",
    }
)
_OF_HELD: Final = ("held: Coplace can't follow it", "held: held by its user")


class _Outcome(NamedTuple):
    """What became of a job, and how much it had: nothing where Slurm does not take it."""

    state: str = "CANCELLED"
    nodes: tuple[int, ...] = ()
    cpus: tuple[int, ...] = ()


def _submitted(slurm: LocalSlurm, options: Sequence[str]) -> int:
    """The number of a job with these options; 0 where Slurm does not take it."""
    said = subprocess.run(
        [
            *("sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 1", "--time=1"),
            *(each.format(folder=slurm.folder) for each in options),
        ],
        env=slurm.environment,
        cwd=slurm.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return int(said.stdout) if said.returncode == 0 else 0


def _outcome(jobs: Iterable[SlurmJob], of: int) -> _Outcome:
    """What became of a job, the tasks of an array as one."""
    own = [job for job in jobs if of and of in (job.job_id, job.array_number)]
    states = {job.state for job in own}
    if states <= {"CANCELLED"}:
        return _Outcome()
    return _Outcome(
        "+".join(sorted(states)),
        tuple(job.asked("node_count") for job in own),
        tuple(job.asked("cpus") for job in own),
    )


def _slurm(folder: Path, more: str) -> LocalSlurm:
    (folder / "gres.conf").write_text(GRES)
    (folder / "hosts").write_text("n1\nn3\n")
    return LocalSlurm(folder, None, more, NODES, "CR_Core_Memory")


def _run(slurm: LocalSlurm, held: int) -> Mapping[str, int]:
    """Submit a job with each of the options, and wait until all have run but so many; return their
    numbers."""
    numbers = {" ".join(each): _submitted(slurm, each) for each in OPTIONS}
    deadline_s = time.monotonic() + _WITHIN_S
    while len(slurm.say("squeue", "--noheader", "--format=%i").splitlines()) > held:
        assert time.monotonic() < deadline_s, slurm.say("squeue")
        time.sleep(0.5)
    return numbers


def _outcomes(numbers: Mapping[str, int]) -> Mapping[str, _Outcome]:
    jobs = Slurm().jobs()
    return {options: _outcome(jobs, number) for options, number in numbers.items()}


def _is_as_good(options: str, found: _Outcome, plain: _Outcome) -> bool:
    """Whether a job got what plain Slurm gave it; on no more nodes and CPUs where their number is
    open."""
    if any(each in options for each in _FIXED):
        return found == plain
    is_within = found.nodes <= plain.nodes and found.cpus <= plain.cpus
    return found.state == plain.state and is_within


def _plain(folder: Path) -> Mapping[str, _Outcome]:
    """What becomes of each under plain Slurm."""
    with pytest.MonkeyPatch.context() as environment, _slurm(folder, MORE + PLAIN) as slurm:
        environment.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        return _outcomes(_run(slurm, 1))


@pytest.fixture(scope="module")
def region(servers: LocalServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    require_installed()
    slurm = _slurm(tmp_path_factory.mktemp("options"), MORE)
    with connected(servers, slurm, "options-") as found:
        found.until(found.is_ready, "the cluster")
        yield found


@pytest.mark.long
def test_a_job_with_any_option_gets_what_plain_slurm_gives_it_or_is_held_with_a_reason(
    region: Region, tmp_path_factory: pytest.TempPathFactory
) -> None:
    plain = _plain(tmp_path_factory.mktemp("plain-options"))
    numbers = _run(region.slurm, len(HELD))
    found = _outcomes(numbers)
    unlike = {
        options
        for options, outcome in found.items()
        if options not in HELD and not _is_as_good(options, outcome, plain[options])
    }
    assert not unlike, {each: (plain[each], found[each]) for each in unlike}
    for options in HELD:
        why = region.ask("why", region.id_of(numbers[options]))
        assert any(words in why for words in _OF_HELD), (options, why)


def test_every_field_that_this_slurm_shows_of_a_job_is_in_the_table(region: Region) -> None:
    shown = region.jobs()
    assert shown
    names = {name for job in shown for name in job.fields}
    assert names <= FIELDS.keys(), sorted(names - FIELDS.keys())


def test_a_job_on_two_shared_nodes_has_as_many_cores_of_each_as_was_decided(
    region: Region,
) -> None:
    slurm = region.slurm
    beside = slurm.submit("sleep 60", "--nodelist=n1", "--time=2")
    region.until(lambda: _cpus_by_node(slurm, beside), "the job beside it")
    even = slurm.submit("sleep 5", "--nodes=2", "--ntasks=8", "--nodelist=n[1-2]", "--time=1")
    region.until(lambda: _cpus_by_node(slurm, even), "its start")
    assert _cpus_by_node(slurm, even) == {"n1": 4, "n2": 4}
    assert _cpus_by_node(slurm, beside) == {"n1": 2}, "plain Slurm would give six of n1"
    slurm.say("scancel", str(beside))


def _cpus_by_node(slurm: LocalSlurm, number: int) -> dict[str, int]:
    """The CPUs of each node that a job has; none before it runs."""
    said = slurm.say("scontrol", "show", "job", "--details", str(number))
    given = re.findall(r"\bNodes=(\S+) CPU_IDs=(\S+)", said)
    return {node: len(expand(f"c[{ids}]")) for nodes, ids in given for node in expand(nodes)}
