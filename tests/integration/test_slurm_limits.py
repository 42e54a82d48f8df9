"""Limits of QOS and associations on a real Slurm with accounts: no node waits for a job that Slurm
does not start."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import pytest

from deploy.local.servers import LocalServers
from tests.support.slurm import require_installed
from tests.support.slurm_accounting import AccountingSlurm, open_folder
from tests.support.slurm_region import Region, connected

NODES: Final = """\
NodeName=n[1-2] CPUs=8 RealMemory=4096
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
MORE: Final = "AccountingStorageEnforce=associations,limits,qos\n"
_NODE: Final = ("--exclusive", "--nodes=1", "--account=physics", "--chdir=/")
# A node is given back by one job and taken by the next within so long: looks of half a second on
# both sides, and Slurm's own of a second.
_HANDS_OVER_S: Final = 8.0


@pytest.fixture(scope="module")
def region(servers: LocalServers) -> Iterator[Region]:
    require_installed()
    with (
        open_folder() as folder,
        connected(
            servers,
            AccountingSlurm(folder, None, MORE, NODES, holds=True),
            "limits-",
            COPLACE_SLURM_LIMITS_EVERY_S="1",
        ) as found,
    ):
        found.until(found.is_ready, "the cluster")
        for words in (
            "add qos one MaxJobsPU=1",
            "add qos short MaxWall=00:02:00",
            "add user daemon account=physics",
            *(f"modify user {name} set qos=normal,one,short" for name in ("root", "daemon")),
        ):
            _manage(found, *words.split())
        yield found


def _manage(region: Region, *words: str) -> None:
    assert isinstance(region.slurm, AccountingSlurm)
    region.slurm.run("sacctmgr", "-i", *words)


def _jobs(region: Region, numbers: Sequence[int]) -> list[Mapping[str, int | str]]:
    shown = json.loads(region.slurm.say("squeue", "--states=all", "--json"))["jobs"]
    return [job for job in shown if job["job_id"] in numbers]


def _are_over(region: Region, numbers: Sequence[int]) -> bool:
    return all(job["job_state"] == "COMPLETED" for job in _jobs(region, numbers))


def test_no_node_waits_for_a_job_beyond_the_limit_of_its_user_and_each_runs(
    region: Region,
) -> None:
    region.until_said("user", "limits", "show")
    shown = region.ask("limits", "show", "--output", "csv")
    assert "qos,one,user,,0,1," in shown, shown
    assert "north/alpha,north" in shown, "they hold at the site of the Slurm"
    ones = [region.slurm.submit("sleep 6", "--time=1", *_NODE, "--qos=one") for _ in range(3)]
    others = [
        region.slurm.submit("sleep 6", "--time=1", *_NODE, "--uid=daemon", "--qos=normal")
        for _ in range(3)
    ]
    region.until(lambda: _are_over(region, [*ones, *others]), "the last job")
    ran = {job["job_id"]: (job["start_time"], job["end_time"]) for job in _jobs(region, ones)}
    spans = sorted(ran.values())
    for (_, ended), (began, _) in pairwise(spans):
        assert 0 <= int(began) - int(ended) <= _HANDS_OVER_S, spans
    beside = sorted((job["start_time"], job["end_time"]) for job in _jobs(region, others))
    for (_, ended), (began, _) in pairwise(beside):
        assert 0 <= int(began) - int(ended) <= _HANDS_OVER_S, beside
    print("of the user with a limit:", spans, "of the other:", beside)
    log = (region.slurm.folder / "service.log").read_text()
    assert "MaxJobsPerUserLimit" not in log, "Slurm was not asked for what it would not start"


def test_a_job_beyond_a_limit_without_an_equal_gives_its_node_back_and_runs_once_that_is_raised(
    region: Region,
) -> None:
    long = region.slurm.submit("sleep 1", "--time=30", *_NODE, "--nodes=2", "--qos=short")
    region.until_said("limit QOSMaxWall", "why", region.id_of(long))
    assert region.job(long).is_held
    declined_s = time.monotonic()
    other = region.slurm.submit("sleep 1", "--time=1", *_NODE, "--nodes=2", "--qos=normal")
    region.until(lambda: _are_over(region, [other]), "another job")
    assert time.monotonic() - declined_s < 30
    assert "limit QOSMaxWall" in region.ask("why", region.id_of(long))
    _manage(region, "modify", "qos", "short", "set", "MaxWall=-1")
    region.until(lambda: _are_over(region, [long]), "the job, whose limit is no more")


def test_a_limit_that_slurm_has_no_more_is_taken_away(region: Region) -> None:
    _manage(region, "modify", "qos", "one", "set", "MaxJobsPU=-1")
    region.until(lambda: "one" not in region.ask("limits", "show"), "no limit")
