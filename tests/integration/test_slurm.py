"""Debian's Slurm, whose jobs a real ingest and placement start on real Kafka."""

import json
import os
import pty
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import pytest
from coplace.v1.jobs_pb2 import (
    JOB_OUTCOME_CANCELLED,
    JOB_OUTCOME_COMPLETED,
    JobActionDone,
    JobDeclined,
    JobFinished,
    JobStarted,
    JobSubmitted,
)

from deploy.local.servers import LocalServers
from services.slurm.adapters.commands import Slurm
from tests.support.slurm import LocalSlurm, require_installed
from tests.support.slurm_region import Region, connected
from tests.support.snippets import REPOSITORY

# Beside the one of all nodes.
PARTITIONS: Final = """\
PartitionName=big Nodes=n2 MaxTime=INFINITE State=UP
PartitionName=small Nodes=n1 MaxTime=INFINITE State=UP
"""
# So long that a look on a busy machine shows the run; of a shorter one the end alone is reported.
SEEN: Final = "sleep 6"


@pytest.fixture(scope="module")
def region(servers: LocalServers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    require_installed()
    slurm = LocalSlurm(tmp_path_factory.mktemp("slurm"), more=PARTITIONS)
    with connected(servers, slurm) as found:
        found.until(lambda: "alpha" in found.ask("clusters"), "the cluster")
        yield found


def test_a_job_starts_where_and_at_the_clock_that_is_decided_and_its_end_is_reported(
    region: Region, tmp_path: Path
) -> None:
    said = tmp_path / "said"
    # Bytes that are not UTF-8, a sign that no table can hold, and more of them than an event has.
    odd = f"--job-name=na\udcefve\t{'x' * 300}"
    number = region.slurm.submit(
        f'echo "$SLURM_JOB_NODELIST $SLURM_CPU_FREQ_REQ" > {said}; {SEEN}',
        *("--nodes=1", "--time=5", odd),
    )
    job_id = region.id_of(number)
    region.until(partial(region.facts, JobFinished, job_id), "the end")
    [finished] = region.facts(JobFinished, job_id)
    [started] = region.facts(JobStarted, job_id)
    assert said.read_text().split() == [*started.nodes, "3100000"]
    assert (started.grant, finished.grant, finished.freq_ghz) == (1, 1, 3.1)
    assert finished.app_id == f"na\ufffdve_{'x' * 300}"[:256]
    assert 1 <= (finished.ended_at_us - finished.started_at_us) / 1e6 < 30
    region.until_said("has ended", "why", job_id)
    assert region.job(number).state == "COMPLETED"


@pytest.mark.parametrize(
    ("asks", "node"),
    [
        ("--partition=big", "n2"),
        ("--partition=small", "n1"),
        ("--nodelist=n2", "n2"),
        ("--exclude=n1", "n2"),
    ],
)
def test_a_job_starts_on_a_node_that_its_user_asks_for(
    region: Region, asks: str, node: str
) -> None:
    number = region.slurm.submit(SEEN, "--nodes=1", "--time=5", asks)
    job_id = region.id_of(number)
    region.until(partial(region.facts, JobFinished, job_id), "the end")
    [started] = region.facts(JobStarted, job_id)
    assert (list(started.nodes), started.grant) == ([node], 1)


def test_jobs_of_two_partitions_run_at_once(region: Region) -> None:
    """Each was granted a node of the other's, and both waited for their cancellation."""
    asks = "--partition=big", "--partition=small"
    both = [region.slurm.submit("sleep 100", "--nodes=1", "--time=5", each) for each in asks]
    for number in both:
        region.until(partial(region.has_nodes, number), "the start")
    for number in both:
        region.slurm.say("scancel", str(number))
        region.until(partial(region.facts, JobFinished, region.id_of(number)), "its end in Coplace")


def test_a_job_that_waits_or_runs_is_cancelled_in_slurm(region: Region) -> None:
    runs = region.slurm.submit("sleep 100", "--nodes=2", "--exclusive", "--time=5")
    region.until(lambda: region.job(runs).has_nodes, "the start")
    waits = region.slurm.submit("sleep 100", "--nodes=2", "--exclusive", "--time=5")
    waits_id, runs_id = region.id_of(waits), region.id_of(runs)
    region.until(lambda: "0 free" in region.ask("why", waits_id), "its reason")
    for number, job_id in ((waits, waits_id), (runs, runs_id)):
        assert "to be cancelled" in region.ask("cancel", job_id, "--reason", "wrong input")
        region.until(partial(region.is_cancelled, number), "the end in Slurm")
        region.until(partial(region.facts, JobFinished, job_id), "its end in Coplace")


def test_a_start_that_is_withdrawn_before_slurm_made_it_is_given_back(region: Region) -> None:
    def partition(state: str) -> None:
        region.slurm.say("scontrol", "update", "PartitionName=all", f"State={state}")

    partition("DOWN")  # Slurm takes jobs and starts none
    number = region.slurm.submit(SEEN, "--nodes=1", "--time=5")
    job_id = region.id_of(number)
    region.until(lambda: region.job(number).word.is_started, "the release")
    region.ask("hold", job_id, "--reason", "ask ada first")
    region.until(partial(region.facts, JobDeclined, job_id), "the answer")
    region.until(lambda: "is held" in region.ask("why", job_id), "that it is held")
    partition("UP")
    assert (region.job(number).word.grant, region.job(number).word.is_started) == (1, False)
    region.ask("release", job_id)
    region.until(partial(region.facts, JobFinished, job_id), "its end in Coplace")
    [finished] = region.facts(JobFinished, job_id)
    [started] = region.facts(JobStarted, job_id)
    assert (started.grant, finished.grant) == (2, 2)


def test_a_node_that_slurm_takes_out_is_drained_until_it_is_back(region: Region) -> None:
    def change(*what: str) -> None:
        region.slurm.say("scontrol", "update", "NodeName=n2", *what)

    change("State=DRAIN", "Reason=a fan is\tbroken")
    region.until(lambda: "a fan is_broken" in region.ask("nodes", "alpha"), "the drain")
    region.kill()
    change("State=RESUME")
    region.start()
    region.until(lambda: "drained" not in region.ask("nodes", "alpha"), "the resumption")


def test_a_job_that_ended_is_found_by_its_number_with_its_nodes_its_time_and_its_exit(
    region: Region,
) -> None:
    fails = region.slurm.submit("sleep 1; exit 3", "--nodes=2", "--time=5")
    killed = region.slurm.submit("kill -9 $$", "--nodes=1", "--nodelist=n2", "--time=5")
    for number in (fails, killed):
        region.until(partial(region.facts, JobFinished, region.id_of(number)), "the end")
    region.until_said("end: failed, exit code 3", "why", str(fails))
    assert "ran on n[1-2] of alpha for 00:00:0" in region.ask("why", str(fails))
    region.until_said("end: failed, signal 9", "why", str(killed))
    assert "ran on n2 of alpha for 00:00:0" in region.ask("why", str(killed))


def test_a_requeue_by_a_user_ends_the_run_before_which_is_charged(region: Region) -> None:
    number = region.slurm.submit("sleep 100", "--nodes=1", "--time=5")
    job_id = region.id_of(number)
    region.until(partial(region.facts, JobStarted, job_id), "the start")
    # Slurm writes whole seconds, from when the node was ready: its start moves on until then.
    region.until(partial(region.has_run_for, number, 2.0), "two seconds of its run")
    region.slurm.say("scontrol", "update", f"JobId={number}", "Requeue=1")
    region.slurm.say("scontrol", "requeue", str(number))
    region.until(partial(region.facts, JobFinished, job_id), "the end of its run")
    [finished] = region.facts(JobFinished, job_id)
    assert (finished.outcome, finished.grant) == (JOB_OUTCOME_CANCELLED, 1)
    assert 0 < finished.started_at_us < finished.ended_at_us
    region.until(lambda: region.id_of(number) in region.ask("jobs"), "the job that it is now")
    region.slurm.say("scancel", str(number))


def test_a_run_is_suspended_and_resumed_and_its_price_leaves_that_time_out(region: Region) -> None:
    number = region.slurm.submit("sleep 4", "--nodes=1", "--time=5")
    job_id = region.id_of(number)
    region.until(partial(region.facts, JobStarted, job_id), "the start")
    region.ask("suspend", job_id, "--reason", "ask ada first", "--wait", "0")
    region.until(partial(region.facts, JobActionDone, job_id), "the answer")
    assert region.job(number).state == "SUSPENDED"
    region.until(lambda: "suspended" in region.ask("why", job_id), "its state in placement")
    time.sleep(1.0)  # Slurm counts whole seconds
    region.ask("unsuspend", job_id, "--wait", "0")
    region.until(lambda: len(region.facts(JobActionDone, job_id)) == 2, "the second answer")

    def known_pauses() -> list[JobFinished]:
        """Ends that say that it was suspended: jobcomp.lua does not know."""
        return [each for each in region.facts(JobFinished, job_id) if each.intervals]

    region.until(known_pauses, "its end in Coplace")
    [suspended, resumed] = region.facts(JobActionDone, job_id)
    [finished] = known_pauses()
    assert (suspended.freq_ghz, resumed.freq_ghz) == (0, 3.1)
    assert finished.outcome == JOB_OUTCOME_COMPLETED
    assert [each.freq_ghz for each in finished.intervals] == [0, 3.1]


def test_what_waits_is_expected_behind_the_changed_limit_of_what_runs(region: Region) -> None:
    number = region.slurm.submit("sleep 100", "--nodes=2", "--exclusive", "--time=5")
    job_id = region.id_of(number)
    region.until(partial(region.facts, JobStarted, job_id), "the start")
    behind = region.slurm.submit("sleep 1", "--nodes=2", "--exclusive", "--time=5")

    def promised_s() -> int:
        """How long behind the start of the run the other is promised its nodes."""
        runs, waits = (
            json.loads(region.ask("why", each, "--output", "json"))
            for each in (job_id, region.id_of(behind))
        )
        until_us = int(waits.get("reservation", {}).get("startAtUs", 0))
        return round((until_us - int(runs["allocation"]["sinceUs"])) / 1e6)

    region.until_said(region.id_of(behind), "jobs")
    region.until(lambda: promised_s() == 300, "its reservation")
    region.slurm.say("scontrol", "update", f"JobId={number}", "TimeLimit=20")
    region.until(lambda: promised_s() == 1_200, "the longer limit")
    region.kill()
    region.slurm.say("scontrol", "update", f"JobId={number}", "TimeLimit=2")
    region.start()
    region.until(lambda: promised_s() == 120, "the limit that was changed while it was away")
    region.slurm.say("scancel", str(number))
    region.until(partial(region.facts, JobFinished, region.id_of(behind)), "the end of the other")


def test_a_requeue_by_coplace_ends_the_run_and_the_job_starts_again(region: Region) -> None:
    number = region.slurm.submit("sleep 3", "--nodes=1", "--time=5")
    job_id = region.id_of(number)
    region.until(partial(region.facts, JobStarted, job_id), "the start")
    region.until(partial(region.has_run_for, number, 1.0), "a second of its run")
    region.ask("requeue", job_id, "--reason", "wrong library", "--wait", "0")
    region.until(partial(region.facts, JobFinished, job_id), "the end of its run")
    [finished] = region.facts(JobFinished, job_id)
    assert (finished.outcome, finished.grant) == (JOB_OUTCOME_CANCELLED, 1)
    region.until(lambda: region.id_of(number) != job_id, "the job that it is now")
    again = region.id_of(number)
    region.until(partial(region.facts, JobSubmitted, again), "its submission")
    [submitted] = region.facts(JobSubmitted, again)
    assert submitted.walltime_s == 5 * 60
    region.slurm.say("scancel", str(number))
    region.until(partial(region.facts, JobFinished, again), "its end in Coplace")


def test_what_lies_between_may_be_killed_at_any_moment(region: Region) -> None:
    number = region.slurm.submit("sleep 4", "--nodes=1", "--time=5")
    region.until(lambda: region.job(number).word.is_started, "the release")
    region.kill()
    region.until(lambda: region.job(number).state == "COMPLETED", "the end in Slurm")
    region.start()
    job_id = region.id_of(number)
    region.until(partial(region.facts, JobFinished, job_id), "its end in Coplace")
    [finished] = region.facts(JobFinished, job_id)
    assert finished.grant == 1
    region.until_said("has ended", "why", job_id)


def test_a_job_waits_for_another_one_and_holds_up_nobody(region: Region) -> None:
    first = region.slurm.submit("sleep 15; exit 3", "--nodes=1", "--time=5")
    behind = region.slurm.submit(
        "sleep 1", "--nodes=1", "--time=5", f"--dependency=afternotok:{first}"
    )
    never = region.slurm.submit("sleep 1", "--nodes=1", "--time=5", f"--dependency=afterok:{first}")
    free = region.slurm.submit("sleep 1", "--nodes=1", "--time=5")
    ids = {number: region.id_of(number) for number in (first, behind, never, free)}
    region.until(partial(region.facts, JobFinished, ids[free]), "the end of the job beside it")
    assert "it has not ended" in region.ask("why", ids[behind])
    assert not region.facts(JobFinished, ids[first])
    region.until(partial(region.facts, JobFinished, ids[behind]), "the end of the job behind it")
    [ended], [began] = (region.facts(JobFinished, ids[number]) for number in (first, behind))
    assert began.started_at_us >= ended.ended_at_us
    assert "ended without completing" in region.ask("why", ids[never])
    region.slurm.say("scancel", str(never))


def test_a_job_begins_when_it_was_submitted_to_and_one_behind_an_array_when_that_has_ended(
    region: Region,
) -> None:
    array = region.slurm.submit("sleep 5", "--array=1-2", "--time=5")
    behind = region.slurm.submit(
        "sleep 1", "--nodes=1", "--time=5", f"--dependency=afterok:{array}"
    )
    later = region.slurm.submit("sleep 1", "--nodes=1", "--time=5", "--begin=now+12")
    behind_id, later_id = region.id_of(behind), region.id_of(later)
    region.until(lambda: "has not ended" in region.ask("why", behind_id), "its reason")
    region.until(lambda: "begin not before" in region.ask("why", later_id), "the begin")
    for job_id in (behind_id, later_id):
        region.until(partial(region.facts, JobFinished, job_id), "its end")
    [finished] = region.facts(JobFinished, later_id)
    assert finished.started_at_us - finished.submitted_at_us >= 12_000_000
    tasks = [job for job in Slurm().jobs() if job.fields["array_job_id"] == array]
    assert {job.state for job in tasks} == {"COMPLETED"}


# Of the user nobody: root may release what waits for Coplace.
AS_USER: Final = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")


@pytest.fixture
def readable(region: Region) -> Iterator[Path]:
    """The slurm.conf where every user can read it, and the filter of sbatch beside it."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        shutil.copy(region.slurm.folder / "cli_filter.lua", folder)
        yield Path(shutil.copy(region.slurm.folder / "slurm.conf", folder))


def test_what_a_user_changes_on_a_job_that_waits_reaches_coplace(
    region: Region, readable: Path
) -> None:
    def say(*command: str) -> str:
        return region.slurm.say(*AS_USER, "env", f"SLURM_CONF={readable}", *command)

    where = ("--parsable", "--output=/dev/null", "--chdir=/", "--wrap=true")
    number = say("sbatch", *where, "--begin=now+1hour", "--time=5")
    job_id = region.id_of(int(number))

    def why(words: str) -> None:
        region.until(lambda: words in region.ask("why", job_id), words)

    why("begin not before")
    say("scontrol", "hold", number)
    why("held by its user")
    say("scontrol", "release", number)
    why("begin not before")
    say("scancel", number)


def test_a_job_whose_terms_were_changed_while_it_waits_runs_by_its_new_ones(
    region: Region,
) -> None:
    number = region.slurm.submit("sleep 1", "--hold", "--time=5")
    job_id = region.id_of(number)
    region.until_said("held by its user", "why", job_id)

    def asked() -> JobSubmitted:
        told: list[JobSubmitted] = region.facts(JobSubmitted, job_id)
        return max(told, key=lambda each: each.changed_at_us)

    for change in ("TimeLimit=3", "Partition=big"):
        region.slurm.say("scontrol", "update", f"JobId={number}", change)
    region.until(lambda: asked().partitions == ["big"], "the last change")
    assert asked().walltime_s == 180
    assert "held by its user" in region.ask("why", job_id)
    region.slurm.say("scontrol", "release", str(number))
    region.until(lambda: region.job(number).state == "COMPLETED", "its end")
    # Slurm has the limit of its start, which is longer at a lower clock: asked for were 3 min.
    ran = region.job(number)
    assert (ran.fields["partition"], ran.asked_limit_min) == ("big", 3)
    assert 3 <= ran.fields["time_limit"] < 5
    [finished] = region.facts(JobFinished, job_id)
    assert finished.partition == "big"


def test_another_begin_another_dependency_and_what_changed_while_the_process_was_away(
    region: Region,
) -> None:
    def update(number: int, *changes: str) -> None:
        region.slurm.say("scontrol", "update", f"JobId={number}", *changes)

    later = region.slurm.submit("sleep 1", "--begin=now+1hour", "--time=5")
    behind = region.slurm.submit("sleep 1", "--time=5", f"--dependency=afterok:{later}")
    away = region.slurm.submit("sleep 1", "--begin=now+1hour", "--time=5")
    ids = {number: region.id_of(number) for number in (later, behind, away)}
    for number in (later, away):
        region.until_said("begin not before", "why", ids[number])
    region.until_said("it has not ended", "why", ids[behind])
    update(behind, "Dependency=")
    region.until(partial(region.facts, JobFinished, ids[behind]), "the end of what waits no more")
    region.kill()
    update(away, "StartTime=now", "TimeLimit=3")
    region.start()
    region.until(partial(region.facts, JobFinished, ids[away]), "the end of what was changed")
    assert max(each.walltime_s for each in region.facts(JobSubmitted, ids[away])) == 300
    assert min(each.walltime_s for each in region.facts(JobSubmitted, ids[away])) == 180
    update(later, "StartTime=now", "Deadline=now+4hours")
    region.until(partial(region.facts, JobFinished, ids[later]), "the end of what begins sooner")
    told = max(region.facts(JobSubmitted, ids[later]), key=lambda each: each.changed_at_us)
    assert told.deadline_at_us > told.changed_at_us


def test_a_job_whose_start_was_declined_has_what_its_user_asked_for_and_may_be_changed(
    region: Region,
) -> None:
    region.slurm.say("scontrol", "update", "PartitionName=all", "State=DOWN")
    number = region.slurm.submit("sleep 1", "--nodes=1", "--time=5")
    job_id = region.id_of(number)
    region.until(lambda: region.job(number).word.is_started, "the release")
    region.ask("hold", job_id, "--reason", "ask ada first")
    region.until(partial(region.facts, JobDeclined, job_id), "the answer")
    of = region.job(number)
    assert (of.fields["time_limit"], of.fields["required_nodes"], of.word.grant) == (5, "", 1)
    region.slurm.say("scontrol", "update", f"JobId={number}", "TimeLimit=3")

    def is_changed() -> bool:
        return any(each.changed_at_us for each in region.facts(JobSubmitted, job_id))

    region.until(is_changed, "the change")
    region.slurm.say("scontrol", "update", "PartitionName=all", "State=UP")
    region.ask("release", job_id)
    region.until(partial(region.facts, JobFinished, job_id), "its end in Coplace")
    assert region.job(number).asked_limit_min == 3


def test_whom_coplace_let_in_while_the_process_was_away_nobody_holds_again(
    region: Region,
) -> None:
    number = region.slurm.submit("sleep 1", "--hold", "--time=5")
    job_id = region.id_of(number)
    region.until_said("held by its user", "why", job_id)
    time.sleep(1.0)  # the mark of a hold has its second
    region.kill()
    region.ask("release", job_id)
    region.start()
    region.until(lambda: region.job(number).state == "COMPLETED", "its end")
    declined = region.facts(JobDeclined, job_id)
    assert len(declined) <= 1


def test_a_user_who_holds_and_releases_a_job_in_slurm_leaves_what_an_operator_holds(
    region: Region, readable: Path
) -> None:
    def say(*command: str) -> str:
        return region.slurm.say(*AS_USER, "env", f"SLURM_CONF={readable}", *command)

    where = ("--parsable", "--output=/dev/null", "--chdir=/", "--time=5", "--wrap=true")
    number = say("sbatch", *where, "--hold")
    job_id = region.id_of(int(number))
    region.until_said("held by its user", "why", job_id)
    assert "now is held" in region.ask("hold", job_id, "--reason", "audit")
    region.until_said(
        "held by its user, who lets it in with scontrol release; audit", "why", job_id
    )
    say("scontrol", "release", number)
    region.until_said("why: held: audit", "why", job_id)
    say("scontrol", "hold", number)
    region.until_said("scontrol release; audit", "why", job_id)
    say("scontrol", "release", number)
    region.until_said("why: held: audit", "why", job_id)
    assert region.job(int(number)).is_held
    region.ask("release", job_id)
    over = {"COMPLETED", "FAILED"}  # that user may not read the prolog
    region.until(lambda: region.job(int(number)).state in over, "its end")


def test_what_a_user_holds_stays_his_until_he_lets_it_in_in_slurm_or_in_coplace(
    region: Region, readable: Path
) -> None:
    def say(*command: str) -> str:
        return region.slurm.say(*AS_USER, "env", f"SLURM_CONF={readable}", *command)

    where = ("--parsable", "--output=/dev/null", "--chdir=/", "--time=5", "--wrap=true")
    noted, held, given_back = (
        int(say("sbatch", *where, option)) for option in ("--hold", "--hold", "--begin=now+1hour")
    )
    ids = {number: region.id_of(number) for number in (noted, held, given_back)}

    def is_held(number: int) -> bool:
        return "held by its user" in region.ask("why", ids[number])

    def has_ended(number: int) -> bool:  # that user may not read the prolog
        return region.job(number).state in {"COMPLETED", "FAILED"}

    for number in (noted, held):
        region.until(partial(is_held, number), "its hold")
    region.slurm.say("scontrol", "update", f"JobId={noted}", "Comment=coplace: a note")
    comment = str(region.job(noted).fields["comment"])
    assert re.fullmatch(r"coplace: a note coplace held by its user at \d+", comment)
    say("scontrol", "release", str(noted))
    time.sleep(6)
    region.ask("release", ids[held])
    for change in ("StartTime=now", "AdminComment=coplace given back"):
        region.slurm.say("scontrol", "update", f"JobId={given_back}", change)
    say("scontrol", "hold", str(given_back))
    say("scontrol", "release", str(given_back))
    for number in (noted, held, given_back):
        region.until(partial(has_ended, number), "its end")


def test_the_tasks_of_an_array_are_jobs_of_their_own(region: Region) -> None:
    number = region.slurm.submit("sleep 1", "--array=1-2", "--time=5")
    tasks = [job for job in Slurm().jobs() if job.fields["array_job_id"] == number]
    submitted = tasks[0].fields["submit_time"]
    for task in (1, 2):
        job_id = f"north/alpha/{number}/{submitted}_{task}"
        region.until(partial(region.facts, JobFinished, job_id), "the end of a task")


def test_an_array_and_a_task_of_it_run_by_what_their_user_changed(region: Region) -> None:
    blocks = region.slurm.submit("sleep 100", "--nodes=2", "--exclusive", "--time=5")
    region.until(partial(region.facts, JobStarted, region.id_of(blocks)), "what is before it")
    number = region.slurm.submit("sleep 1", "--array=0-3", "--nodes=1", "--exclusive", "--time=5")
    array_id = region.id_of(number)
    region.until_said(array_id, "jobs")

    def update(name: object, *what: str) -> None:
        region.slurm.say("scontrol", "update", f"JobId={name}", *what)

    update(number, "TimeLimit=3", "ArrayTaskThrottle=1")
    update(f"{number}_2", "TimeLimit=2")
    region.until(partial(region.facts, JobSubmitted, f"{array_id}_2"), "the changed task")
    region.slurm.say("scancel", str(blocks))
    for index in range(4):
        region.until(partial(region.facts, JobFinished, f"{array_id}_{index}"), f"task {index}")
    newest = max(region.facts(JobSubmitted, array_id), key=lambda each: each.changed_at_us)
    assert (newest.walltime_s, newest.array_at_most) == (180, 1)
    assert region.facts(JobSubmitted, f"{array_id}_2")[-1].walltime_s == 120
    ends = [region.facts(JobFinished, f"{array_id}_{index}")[0] for index in range(4)]
    runs = sorted((each.started_at_us, each.ended_at_us) for each in ends)
    # One at a time, though two nodes are free.
    assert all(end_us <= begin_us for (_, end_us), (begin_us, _) in pairwise(runs))


def test_users_see_in_squeue_why_a_job_waits_and_why_it_was_cancelled(region: Region) -> None:
    """Slurm 22.05 lets nobody set SystemComment: jobs without a comment have the note there."""
    runs = region.slurm.submit("sleep 100", "--nodes=2", "--exclusive", "--time=5")
    region.until(partial(region.has_nodes, runs), "the start")
    asks = ("--nodes=2", "--exclusive", "--time=5")
    waits = region.slurm.submit("sleep 1", *asks)
    own = region.slurm.submit("sleep 1", *asks, "--comment=app_id=lu.C mine")
    held = region.slurm.submit("sleep 1", *asks, "--hold")

    def seen(number: int) -> str:
        command = (
            f". {REPOSITORY}/deploy/slurm/squeue.sh; squeue --noheader --states=all --jobs={number}"
        )
        return region.slurm.say("sh", "-c", command)

    region.until(lambda: "coplace: start expected 20" in seen(waits), "when it starts")
    assert "coplace held by its user" in seen(held)
    region.until(lambda: "0 free" in seen(waits), "why it waits")
    assert seen(own).endswith("app_id=lu.C mine")
    assert region.job(waits).fields["start_time"] == 0
    region.ask("cancel", region.id_of(waits), "--reason", "wrong input", "--wait", "0")
    region.until(partial(region.is_cancelled, waits), "the end in Slurm")
    assert "wrong input" in seen(waits)
    for number in (own, held, runs):
        region.slurm.say("scancel", str(number))


def test_sbatch_prints_to_people_when_a_job_starts_and_what_it_costs(region: Region) -> None:
    """It waits for two seconds at most, which a busy machine may need for other things: then it
    prints nothing, and the next one does."""
    costs = re.compile(r"coplace: [\d.]+ SU \([\d.]+ to [\d.]+\): starts now on alpha\s*$")
    region.until(region.is_ready, "the process")

    def printed() -> str:
        ours, theirs = pty.openpty()
        os.set_blocking(ours, False)
        command = ["sbatch", f"--output={os.devnull}", "--nodes=1", "--time=5", "--wrap=sleep 1"]
        began_s = time.monotonic()
        subprocess.run(
            command,
            env=region.slurm.environment,
            stdout=subprocess.DEVNULL,
            stderr=theirs,
            check=True,
        )
        assert time.monotonic() - began_s < 4
        try:
            return os.read(ours, 1_000).decode()
        except BlockingIOError:
            return ""
        finally:
            os.close(ours)
            os.close(theirs)

    region.until(lambda: costs.match(printed()), "its price")


def test_whoever_waits_in_srun_reads_when_it_starts_and_runs_when_nodes_are_free(
    region: Region, tmp_path: Path
) -> None:
    runs = region.slurm.submit("sleep 100", "--nodes=2", "--exclusive", "--time=5")
    region.until(partial(region.has_nodes, runs), "the start")
    said = tmp_path / "said"
    with said.open("w") as file:
        command = ("srun", "--nodes=1", "--time=5", "echo", "it ran")
        srun = subprocess.Popen(command, env=region.slurm.environment, stdout=file, stderr=file)
    try:
        region.until(lambda: "srun: coplace: start expected 20" in said.read_text(), "its answer")
        region.slurm.say("scancel", str(runs))
        region.until(lambda: srun.poll() is not None, "its end")
        assert srun.returncode == 0
        assert "it ran" in said.read_text()
    finally:
        srun.kill()
        srun.wait()


# A part on each node.
OF_TWO_PARTS: Final = (
    *("--ntasks=1", "--time=5", "--partition=small"),
    *(":", "--ntasks=1", "--time=5", "--partition=big"),
)


def part_ids(region: Region, number: int) -> list[str]:
    """The ids in Coplace of the parts of a heterogeneous job."""
    submit_s = region.job(number).submit_s
    return [f"north/alpha/{number}+{part}/{submit_s}" for part in (0, 1)]


def handed_over(region: Region, job_id: str) -> JobFinished:
    """The end of a heterogeneous job that runs in parts."""
    region.until(partial(region.facts, JobFinished, job_id), "that it is handed over")
    found: list[JobFinished] = region.facts(JobFinished, job_id)
    assert {each.ended_as for each in found} == {"STARTED_IN_PARTS"}
    assert {each.started_at_us == each.ended_at_us for each in found} == {True}
    return max(found, key=lambda each: each.grant)


def require_charged_as_slurm_has_it(region: Region, job_id: str, number: int) -> None:
    """Wait for the end of a part, and compare it with what squeue shows of it."""
    region.until(partial(region.facts, JobFinished, job_id), "the end of a part")
    times = [region.job(number).fields[name] for name in ("start_time", "end_time")]
    for ended in region.facts(JobFinished, job_id):
        assert [ended.started_at_us // 1_000_000, ended.ended_at_us // 1_000_000] == times
        assert (ended.cores, ended.grant) == (region.job(number).fields["cpus"], 0)


def test_a_heterogeneous_job_waits_as_one_job_and_starts_whole_on_the_nodes_of_its_parts(
    region: Region, readable: Path
) -> None:
    """Slurm itself would start it on the core that is free."""
    blocks = region.slurm.submit("sleep 100", "--ntasks=1", "--partition=big", "--time=5")
    region.until(partial(region.has_nodes, blocks), "the start")
    as_user = (*AS_USER, "env", f"SLURM_CONF={readable}")
    waits = ("sbatch", "--parsable", "--output=/dev/null", "--chdir=/")
    number = int(region.slurm.say(*as_user, *waits, *OF_TWO_PARTS, "--wrap=true"))
    job_id = region.id_of(number)
    region.until_said("in 2 parts at once, 1 free", "why", job_id)
    for command in ("hold", "release"):
        region.slurm.say(*as_user, "scontrol", command, str(number))
        words = "held by its user" if command == "hold" else "in 2 parts at once"
        region.until_said(words, "why", job_id)
    with pytest.raises(AssertionError, match=f"error for job {number}"):  # Slurm drops our words
        region.slurm.say(*as_user, "scontrol", "release", str(number))
    region.kill()
    region.slurm.say("scancel", str(blocks))
    region.start()
    assert handed_over(region, job_id).grant == 1
    for part, own_id in enumerate(part_ids(region, number)):
        require_charged_as_slurm_has_it(region, own_id, number + part)
        [ended] = {tuple(each.node_names) for each in region.facts(JobFinished, own_id)}
        assert ended == (f"n{1 + part}",)
    region.until_said("its parts run, each a job of its own", "why", job_id)


def test_a_heterogeneous_job_keeps_to_a_limit_and_its_end_is_known_though_nobody_looked(
    region: Region,
) -> None:
    limit = ("limits", "set", "user", "root")
    region.ask(*limit, "--nodes", "1")
    number = region.slurm.submit("sleep 4", *OF_TWO_PARTS)
    job_id = region.id_of(number)
    region.until_said("may hold 1 nodes at once, holds 0 and needs 2 more", "why", job_id)
    region.ask(*limit, "--nodes", "2")
    region.until(lambda: not region.job(number).is_held, "the release")
    region.kill()

    def states() -> list[str]:
        return [job.state for job in Slurm().jobs() if job.het_number == number]

    region.until(lambda: states() == ["COMPLETED"] * 2, "the end in Slurm")
    region.start()
    assert handed_over(region, job_id).grant == 1
    for part, own_id in enumerate(part_ids(region, number)):
        require_charged_as_slurm_has_it(region, own_id, number + part)
    region.ask(*limit)


def test_heterogeneous_jobs_are_cancelled_and_requeued_whole(
    region: Region,
) -> None:
    number = region.slurm.submit("sleep 100", *OF_TWO_PARTS)
    first, second = region.id_of(number), region.slurm.submit("sleep 2", *OF_TWO_PARTS)
    third = region.slurm.submit("sleep 2", *OF_TWO_PARTS)
    handed_over(region, first)
    region.until_said("0 free", "why", region.id_of(second))
    region.ask("cancel", region.id_of(second), "--reason", "wrong input", "--wait", "0")
    for part in (0, 1):
        region.until(partial(region.is_cancelled, second + part), "the end in Slurm")
    region.until(partial(region.facts, JobFinished, region.id_of(second)), "its end in Coplace")
    region.until(partial(region.has_run_for, number, 2.0), "two seconds of its run")
    region.slurm.say("scontrol", "update", f"JobId={number}", "Requeue=1")
    region.slurm.say("scontrol", "requeue", str(number))
    region.until(lambda: region.id_of(number) != first, "the job that it is now")
    again = region.id_of(number)
    region.until(partial(region.facts, JobSubmitted, again), "its submission")
    region.slurm.say("scancel", str(number))
    region.until(partial(region.facts, JobFinished, again), "its end")
    assert handed_over(region, region.id_of(third)).grant == 1


def test_a_heterogeneous_job_is_withdrawn_and_given_back_as_it_was_submitted(
    region: Region,
) -> None:
    def partition(state: str) -> None:
        region.slurm.say("scontrol", "update", "PartitionName=big", f"State={state}")

    partition("DOWN")  # Slurm takes jobs and starts none
    asks = ("--ntasks=1", "--time=5", ":", "--ntasks=1", "--time=7", "--partition=big")
    number = region.slurm.submit("sleep 2", *asks)
    job_id = region.id_of(number)
    region.until(lambda: region.job(number).word.is_started, "the release")
    region.ask("hold", job_id, "--reason", "ask ada first")
    region.until(partial(region.facts, JobDeclined, job_id), "the answer")
    assert (region.job(number).word.grant, region.job(number).is_held) == (1, True)
    region.ask("release", job_id)
    region.until(lambda: not region.job(number).is_held, "the second release")
    region.kill()
    gang = region.job(number)
    assert [part.fields["time_limit"] for part in gang.parts] == [5, 7]
    assert (gang.fields["excluded_nodes"], gang.parts[1].released_on) == ("n2", "n2")
    assert "jobs are Slurm's" in region.ask("slurm", "release", "--all")
    gang = region.job(number)
    names = ("admin_comment", "required_nodes", "excluded_nodes", "time_limit", "requeue")
    found = [tuple(part.fields[name] for name in names) for part in gang.parts]
    assert found == [("coplace given back", "", "", limit, True) for limit in (5, 7)]
    partition("UP")
    region.start()
    assert handed_over(region, job_id).grant == 0
