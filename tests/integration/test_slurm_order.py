"""The order of waiting jobs on a real Slurm with accounts: each priority is the one that Slurm has
for a job that is not held, and jobs start with Coplace in the order of plain Slurm."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pytest

from deploy.local.servers import LocalServers
from services.slurm.adapters.commands import Slurm
from services.slurm.adapters.order_terms import OrderTerms
from services.slurm.model.jobs import SlurmJob
from services.slurm.model.priority import QueueTerms, priority, waits_since_s, whole
from tests.support.slurm import built_slurm, require_installed
from tests.support.slurm_accounting import AccountingSlurm, open_folder
from tests.support.slurm_region import Region, connected

NODES: Final = """\
NodeName=n[1-4] CPUs=8 RealMemory=4096
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityJobFactor=10
PartitionName=fast Nodes=n[1-2] MaxTime=60 State=UP PriorityJobFactor=40 PriorityTier=5
"""
RULES: Final = """\
PriorityType=priority/multifactor
PriorityDecayHalfLife=1-0
PriorityCalcPeriod=1
PriorityMaxAge=01:00:00
PriorityWeightAge=100000
PriorityWeightFairshare=1000000
PriorityWeightJobSize=50000
PriorityWeightPartition=20000
PriorityWeightQOS=30000
PriorityWeightAssoc=7000
PriorityWeightTRES=CPU=1000,Mem=2000,license/matlab=500
AccountingStorageEnforce=associations,limits,qos
"""
OTHER_RULES: Final = RULES + (
    "PriorityFavorSmall=YES\n"
    "PriorityFlags=ACCRUE_ALWAYS,SMALL_RELATIVE_TO_TIME,NO_FAIR_TREE,NO_NORMAL_QOS,NO_NORMAL_PART\n"
)
USERS: Final = ("daemon", "games", "mail")
JOBS: Final = tuple(
    line.split()
    for line in """
--account=physics
--account=chem --uid=daemon
--account=physics --uid=games --qos=high
--account=chem --uid=games --qos=low --nodes=3
--account=chem --uid=mail --time=50
--account=physics --partition=fast --nice=500
--account=physics --partition=all,fast --licenses=matlab:2
--account=physics --partition=fast,all --qos=high
--account=physics --ntasks=12 --mem-per-cpu=100
--account=physics --begin=now+3
--account=physics --array=1-3
--account=physics --nice=-1000
--account=physics --nodes=2-4
--account=physics --exclusive
""".splitlines()
    if line
)
# sshare shows fair shares with six digits: half of the last one, times its weight. Both sums are
# cut to a whole number. Ages are whole seconds on both sides.
ROUNDING: Final = 1 + 1_000_000 * 0.5e-6
# Nodes for one job at a time.
ONE: Final = """\
NodeName=n[1-2] CPUs=8 RealMemory=4096
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityJobFactor=10
PartitionName=fast Nodes=ALL MaxTime=60 State=UP PriorityJobFactor=40
PartitionName=first Nodes=ALL MaxTime=60 State=UP PriorityTier=5
"""
OF_STARTS: Final = tuple(
    line.split()
    for line in """
--account=physics
--account=chem --uid=daemon
--account=chem --uid=games --qos=low
--account=physics --uid=games
--account=physics --partition=fast
--account=physics
--account=chem --uid=mail --partition=first
--account=chem --uid=daemon --qos=high
--account=physics --partition=fast,all --nice=200000
--account=physics --nice=-50000
""".splitlines()
    if line
)
_WITHIN_S: Final = 300.0


class _Shown(NamedTuple):
    """A line of sprio: a job in a partition, the part of the greatest age that it has reached, and
    its priority."""

    number: int
    partition: str
    age: float
    priority: int


def add_accounts(slurm: AccountingSlurm) -> None:
    """Accounts with shares, users in several of them, and QOS with priorities."""
    for words in (
        "modify account physics set fairshare=10",
        "add account chem fairshare=30 priority=3",
        "add qos high priority=50",
        "add qos low priority=10",
        "add user daemon account=chem fairshare=3",
        "add user games account=physics,chem fairshare=5 priority=4",
        "add user mail account=chem fairshare=parent",
        *(f"modify user {name} set qos=normal,high,low" for name in ("root", *USERS)),
    ):
        slurm.run("sacctmgr", "-i", *words.split())


def _sprio(slurm: AccountingSlurm) -> Sequence[_Shown]:
    said = slurm.say("sprio", "--noheader", "--format=%i|%r|%a|%Y").splitlines()
    found = (line.replace(" ", "").split("|") for line in said)
    return [_Shown(int(i), name, float(age), int(all_)) for i, name, age, all_ in found]


def _until_it_is(slurm: AccountingSlurm, number: int, state: str) -> None:
    deadline_s = time.monotonic() + _WITHIN_S
    of_it = ("squeue", "--states=all", "--noheader", "--format=%T", f"--jobs={number}")
    while slurm.say(*of_it) != state:
        assert time.monotonic() < deadline_s, slurm.say("squeue", "--states=all")
        time.sleep(0.5)


def _until_aged(slurm: AccountingSlurm) -> Sequence[_Shown]:
    """What sprio shows once Slurm has counted the ages of all of them."""
    deadline_s = time.monotonic() + _WITHIN_S
    while True:
        shown = _sprio(slurm)
        if shown and all(each.age for each in shown):
            return shown
        assert time.monotonic() < deadline_s, shown
        time.sleep(1)


def _counted_s(shown: Sequence[_Shown], jobs: Mapping[int, SlurmJob], terms: QueueTerms) -> int:
    """When Slurm counted the ages last: a second by which each job has the age that is shown."""
    counted = {
        round(waits_since_s(jobs[each.number], terms.rules) + each.age * terms.rules.max_age_s)
        for each in shown
    }
    assert len(counted) == 1, counted
    return counted.pop()


@pytest.fixture(
    params=[
        pytest.param((RULES, ""), id="as by default"),
        pytest.param((OTHER_RULES, ""), id="with other flags", marks=pytest.mark.thorough),
        pytest.param((RULES, "24.11"), id="of 24.11", marks=pytest.mark.thorough),
    ]
)
def plain(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[AccountingSlurm]:
    rules, release = request.param
    root = built_slurm(release) if release else None
    if root is None:
        require_installed()
    with open_folder(root) as folder, AccountingSlurm(folder, root, rules, NODES) as slurm:
        for name in ("SLURM_CONF", "PATH"):
            monkeypatch.setenv(name, slurm.environment[name])
        yield slurm


def test_each_priority_is_that_which_slurm_shows_of_a_job_that_is_not_held(
    plain: AccountingSlurm,
) -> None:
    add_accounts(plain)
    # The first leaves usage behind, so that shares differ; the second keeps all others waiting.
    whole_slurm = ("--exclusive", "--nodes=4", "--time=20", "--account=physics")
    _until_it_is(plain, plain.submit("sleep 10", *whole_slurm), "COMPLETED")
    _until_it_is(plain, plain.submit("sleep 900", *whole_slurm), "RUNNING")
    numbers = {plain.submit("sleep 1", "--time=5", *options): options for options in JOBS}
    shown = _until_aged(plain)
    slurm = Slurm()
    reader = OrderTerms(slurm)
    terms = reader.read()
    assert reader.problems == {}
    jobs = {job.job_id: job for job in slurm.jobs() if job.is_pending}
    counted_s = _counted_s(shown, jobs, terms)
    assert {each.number for each in shown} == numbers.keys()
    for each in shown:
        job = jobs[each.number]
        age_s = counted_s - waits_since_s(job, terms.rules)
        found = whole(priority(job, each.partition, terms, age_s))
        assert abs(found - each.priority) <= ROUNDING, (numbers[each.number], each, found)
    print(json.dumps({"compared": len(shown), "fair shares": sorted(terms.fair_shares.values())}))


@pytest.fixture
def region(servers: LocalServers) -> Iterator[Region]:
    require_installed()
    every = {"COPLACE_SLURM_ORDER_EVERY_S": "2", "COPLACE_SLURM_REORDERS_EVERY_S": "0.5"}
    with (
        open_folder() as folder,
        connected(
            servers, AccountingSlurm(folder, None, RULES, ONE, holds=True), "order-", **every
        ) as found,
    ):
        found.until(found.is_ready, "the cluster")
        found.ask("policy", "set", "order=manager", "--reason", "as Slurm has it")
        yield found


def _has_shares(slurm: AccountingSlurm) -> bool:
    """Whether Slurm has counted what was used, so that shares differ."""
    said = slurm.say("sshare", "--noheader", "--parsable2", "--all", "--format=User,FairShare")
    factors = {line.partition("|")[2] for line in said.splitlines() if line.startswith(USERS)}
    return len(factors) > 1


def _starts(slurm: AccountingSlurm, numbers: Sequence[int]) -> Sequence[int]:
    """The positions of jobs in the order of their starts; fewer while some have not ended."""
    found = [
        (job["start_time"], at)
        for at, number in enumerate(numbers)
        for job in json.loads(slurm.say("squeue", "--states=all", "--json"))["jobs"]
        if job["job_id"] == number and job["job_state"] == "COMPLETED"
    ]
    return [at for _, at in sorted(found)]


def test_with_coplace_jobs_start_in_the_order_of_plain_slurm(region: Region) -> None:
    own = region.slurm
    assert isinstance(own, AccountingSlurm)
    with open_folder() as folder, AccountingSlurm(folder, None, RULES, ONE) as plain:
        both = (plain, own)
        whole = ("--exclusive", "--nodes=2", "--chdir=/")
        for slurm in both:
            add_accounts(slurm)
            slurm.submit("sleep 8", "--time=1", *whole, "--account=physics", "--uid=games")
        time.sleep(20)
        for slurm in both:
            # What runs from here on changes no shares.
            for name in ("normal", "high", "low"):
                slurm.run("sacctmgr", "-i", "modify", "qos", name, "set", "usagefactor=0")
        deadline_s = time.monotonic() + 2 * _WITHIN_S
        while not all(map(_has_shares, both)):
            assert time.monotonic() < deadline_s, [slurm.say("sshare", "--all") for slurm in both]
            time.sleep(2)
        blocks = [slurm.submit("sleep 900", "--time=20", *whole) for slurm in both]
        for slurm, number in zip(both, blocks, strict=True):
            _until_it_is(slurm, number, "RUNNING")
        numbers = [
            [slurm.submit("sleep 2", "--time=1", *whole, *options) for options in OF_STARTS]
            for slurm in both
        ]
        time.sleep(5)
        for slurm, number in zip(both, blocks, strict=True):
            slurm.say("scancel", str(number))
        count = len(OF_STARTS)
        region.until(lambda: len(_starts(own, numbers[1])) == count, "the last job")
        region.until(lambda: len(_starts(plain, numbers[0])) == count, "the last plain job")
        orders = [_starts(slurm, of) for slurm, of in zip(both, numbers, strict=True)]
    print("plain Slurm, with Coplace:", orders)
    assert orders[0] == orders[1]
    assert orders[0] != sorted(orders[0])
