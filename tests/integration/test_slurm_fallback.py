"""While Coplace is silent a Slurm starts its jobs by its own rules, and gives those that wait back
when Coplace speaks again. A loop is the timer; it has nothing of this project but the file
that a site copies."""

import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import pytest
from coplace.v1.jobs_pb2 import JobFinished
from typer.testing import CliRunner

from cli.main import app
from deploy.local.servers import LocalServers
from services.slurm.adapters import giving_back
from services.slurm.adapters.commands import Slurm
from services.slurm.model.jobs import GIVEN_BACK, IN_SILENCE
from tests.support.slurm import LocalSlurm, require_installed
from tests.support.slurm_region import CLUSTERS, Region, connected

AFTER_S: Final = 8.0
PERIOD_S: Final = 2.0
# Slurm's scheduler looks once a second, beside what the machine does.
_MORE_S: Final = 10.0
_WITHIN_S: Final = 30.0
_CHAOS_S: Final = 90.0


@pytest.fixture(scope="module")
def region(servers: LocalServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    require_installed()
    slurm = LocalSlurm(tmp_path_factory.mktemp("fallback"))
    with connected(servers, slurm, "fallback-") as found:
        found.kill()
        speaks(found)
        found.until(lambda: "alpha" in found.ask("clusters"), "the cluster")
        found.until(found.heartbeat.exists, "that Coplace speaks")
        with timer(found):
            yield found


def speaks(region: Region) -> None:
    """Start the process so that silence is noticed soon."""
    region.start(CLUSTERS, COPLACE_SLURM_SPEAKS_EVERY_S="1")


@contextmanager
def timer(region: Region) -> Iterator[None]:
    """Run the program again and again."""
    program = region.slurm.folder / "giving_back.py"
    shutil.copy(giving_back.__file__, program)
    environment = {
        **region.slurm.environment,
        "COPLACE_SLURM_HEARTBEAT_FILE": str(region.heartbeat),
        "COPLACE_FALLBACK_AFTER_S": f"{AFTER_S:g}",
    }
    stop = threading.Event()

    def run() -> None:
        with (region.slurm.folder / "timer.log").open("ab") as log:
            while not stop.wait(PERIOD_S):
                command = [sys.executable, "-I", str(program)]
                subprocess.run(command, env=environment, stdout=log, stderr=log, check=False)

    running = threading.Thread(target=run)
    running.start()
    try:
        yield
    finally:
        stop.set()
        running.join()


def silent_s(region: Region) -> float:
    """For how long Coplace has not spoken."""
    return time.time() - region.heartbeat.stat().st_mtime


@pytest.mark.parametrize(
    "silent",
    [
        "process",
        "ingest",
        "process and ingest",
        pytest.param("placement", marks=pytest.mark.thorough),
        pytest.param("watch", marks=pytest.mark.thorough),
    ],
)
def test_what_waits_starts_by_slurms_rules_in_silence_and_by_coplaces_behind_it(
    servers: LocalServers, region: Region, tmp_path: Path, silent: str
) -> None:
    ran = tmp_path / "ran"
    region.until(lambda: silent_s(region) < 3, "that Coplace speaks")

    def submit(script: str, *options: str) -> int:
        line = f'echo "$SLURM_JOB_ID" >> {ran}; {script}'
        return region.slurm.submit(line, "--time=5", *options)

    # All cores are taken by a job that Coplace starts, so that some wait for the silence to end.
    before = submit("sleep 6", "--nodes=2", "--exclusive")
    region.until(partial(region.has_nodes, before), "the start before the silence")
    programs = {program.name.rpartition("-")[2]: program for program in region.programs()}
    away = [programs[name] for name in silent.split() if name in programs]
    servers.remove(away)
    if "process" in silent:
        region.kill()
    fills = [submit("sleep 12", "--ntasks=1") for _ in range(4)]
    waits = [submit("sleep 1", "--ntasks=1", "--requeue") for _ in range(3)]
    held = submit("sleep 1", "--hold")
    later = submit("sleep 1", "--begin=now+1hour")
    behind = submit("sleep 1", f"--dependency=afterok:{later}")
    users = submit("sleep 1")

    region.until(lambda: silent_s(region) > AFTER_S, "the silence")
    began_s = time.monotonic()
    region.until(lambda: all(map(region.has_nodes, fills)), "the starts in silence")
    assert time.monotonic() - began_s < PERIOD_S + _MORE_S
    assert {str(region.job(each).fields["admin_comment"]) for each in fills} == {IN_SILENCE}
    region.until(lambda: IN_SILENCE in region.job(users).fields["admin_comment"], "what waits")
    for each in (held, later, behind):
        assert region.job(each).is_pending
    assert region.job(held).is_held
    # What somebody holds since, as a user would, is not released again.
    region.slurm.say("scontrol", "uhold", str(users))

    servers.start(away)
    if "process" in silent:
        speaks(region)
    for each in waits:
        region.until(partial(region.facts, JobFinished, region.id_of(each)), "its end in Coplace")
        # Some of them ended before anybody looked: of these Slurm shows an end alone.
        [finished] = region.facts(JobFinished, region.id_of(each))
        assert finished.grant == region.job(each).word.grant
    for each in fills:
        region.until(partial(region.facts, JobFinished, region.id_of(each)), "its end in Coplace")
        assert [run.grant for run in region.facts(JobFinished, region.id_of(each))] == [0]
    region.until(lambda: region.job(later).is_held, "that what begins later is Coplace's again")
    region.until(lambda: not region.job(later).is_given_back, "that its word is removed")
    assert region.job(users).is_pending
    assert "begin not before" in region.ask("why", region.id_of(later))
    counts = Counter(ran.read_text().split())
    assert counts == {str(each): 1 for each in (before, *fills, *waits)}
    for each in (held, later, behind, users):
        region.slurm.say("scancel", str(each))


@pytest.mark.thorough
def test_each_job_runs_once_however_often_coplace_falls_silent(
    region: Region, tmp_path: Path
) -> None:
    """The process is killed or stopped for longer and shorter than the silence that starts jobs, at
    moments drawn by a seed, while jobs come."""
    ran, rng, numbers = tmp_path / "ran", Random(7), list[int]()
    region.until(lambda: silent_s(region) < 3, "that Coplace speaks")
    until_s = time.monotonic() + _CHAOS_S
    while time.monotonic() < until_s:
        for _ in range(rng.randint(1, 4)):
            script = f'echo "$SLURM_JOB_ID" >> {ran}; sleep {rng.choice([0, 1, 3])}'
            asks = rng.choice([["--ntasks=1"], ["--nodes=1", "--exclusive"], ["--array=1-2"]])
            numbers.append(region.slurm.submit(script, "--time=5", *asks))
        time.sleep(rng.uniform(2.0, 12.0))
        if rng.random() < 0.5:
            region.kill()
            time.sleep(rng.uniform(0.0, 2 * AFTER_S))
            speaks(region)
        else:
            region.between.send_signal(signal.SIGSTOP)
            time.sleep(rng.uniform(0.0, 2 * AFTER_S))
            region.between.send_signal(signal.SIGCONT)

    def all_ended() -> bool:
        mine = {*numbers}
        shown = [job for job in region.jobs() if {job.job_id, job.array_number} & mine]
        return all(job.state == "COMPLETED" for job in shown)

    region.until(all_ended, "all ends")
    shown = [job for job in region.jobs() if {job.job_id, job.array_number} & {*numbers}]
    assert Counter(ran.read_text().split()) == {str(job.job_id): 1 for job in shown}
    by_coplace = sum(job.word.grant > 0 for job in shown)
    assert 0 < by_coplace < len(shown)
    for job in shown:
        if not job.array_number:
            ends = partial(region.facts, JobFinished, region.id_of(job.job_id))
            region.until(ends, "its end in Coplace")
            # A process that was started anew sends it again: a copy.
            assert {end.grant for end in ends()} == {job.word.grant}
    print(f"{len(shown)} jobs ran once, {len(shown) - by_coplace} by Slurm's rules")


def test_a_thousand_jobs_that_wait_are_given_back_soon_as_they_were_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_installed()
    with LocalSlurm(tmp_path) as slurm:
        monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        slurm.say("scontrol", "update", "PartitionName=all", "State=DOWN")
        (tmp_path / "many.sh").write_text(
            "#!/bin/sh\nfor at in $(seq 1000); do sbatch -o /dev/null --time=9 job.sh; done\n"
        )
        slurm.submit("sleep 1", "--time=9")
        subprocess.run(
            ["sh", "many.sh"], cwd=tmp_path, check=True, capture_output=True, env=slurm.environment
        )
        held = slurm.submit("sleep 1", "--hold")
        # Two that Coplace had decided on, one of which it declined since.
        for number, word in ((1, "started freq_ghz=2"), (2, "declined")):
            comment = f"AdminComment=coplace grant=1 {word} limit=9 requeue=1"
            changes = ("TimeLimit=14", "Requeue=0", "ReqNodeList=n1", comment)
            slurm.say("scontrol", "update", f"JobId={number}", *changes)
        slurm.say("scontrol", "release", "1")
        began_s = time.monotonic()
        result = CliRunner().invoke(app, ["slurm", "release", "--all"])
        took_s = time.monotonic() - began_s
        assert (result.exit_code, result.output) == (0, "1001 jobs are Slurm's\n")
        assert took_s < _WITHIN_S
        jobs = {job.job_id: job for job in Slurm().jobs()}
        assert [each.job_id for each in jobs.values() if each.is_held] == [held]
        assert all(job.is_given_back or job.job_id == held for job in jobs.values())
        for number in (1, 2):
            of = jobs[number].fields
            found = (of["time_limit"], of["requeue"], of["required_nodes"], of["admin_comment"])
            assert found == (9, True, "", GIVEN_BACK)
        print(f"1,001 jobs were given back in {took_s:.1f} s")
