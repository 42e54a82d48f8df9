"""Runs that ended are published from their files, whatever is in these."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
import pytest
from coplace.v1.ingest_service_pb2 import Envelope
from coplace.v1.jobs_pb2 import JobOutcome

from coplace_client.calls import UnansweredError
from services.slurm.adapters.kept_runs import EndedRuns
from services.slurm.adapters.published_facts import PublishedFacts
from services.slurm.model.jobs import SlurmJob
from shared.slurm.facts import envelopes
from tests.unit.services.slurm.region import SITE, PlayedRegion, unanswered
from tests.unit.shared.slurm.three_ways import Stretch, TrueRun


def kept(folder: Path, number: int, **changes: Any) -> Path:
    """A file as jobcomp.lua writes it."""
    [record] = TrueRun([Stretch("n1", 2, 9)]).jobcomp()
    file = folder / f"1795700019-{number}-1795700000.json"
    file.write_bytes(json.dumps({**json.loads(record), "jobid": number, **changes}).encode())
    return file


def ended(folder: Path, region: PlayedRegion) -> EndedRuns:
    return EndedRuns(folder, region, lambda: SITE)


def test_a_run_is_published_and_its_file_removed(tmp_path: Path) -> None:
    region, file = PlayedRegion(), kept(tmp_path, 9)
    ended(tmp_path, region).publish()
    [_, started, finished] = region.told
    assert started.job_started.started_at_us == finished.job_finished.started_at_us
    assert finished.job_finished.outcome == JobOutcome.JOB_OUTCOME_COMPLETED
    assert finished.job_finished.cores == 2
    assert not file.exists()


def test_what_a_look_at_slurm_published_is_not_published_again(tmp_path: Path) -> None:
    region, published, file = PlayedRegion(), PublishedFacts(), kept(tmp_path, 9)
    runs = EndedRuns(tmp_path, region, lambda: SITE, published)
    runs.publish()
    assert all(map(published.has, region.told))
    again = kept(tmp_path, 9)
    runs.publish()
    assert len(region.told) == 3
    assert not file.exists()
    assert not again.exists()


@pytest.mark.parametrize("word", ["", "coplace grant=3 started freq_ghz=2.1 submit=1795700000"])
@pytest.mark.parametrize("lasts_s", [0, 1, 9])
def test_a_start_that_no_look_showed_is_that_which_one_would_have_shown(
    tmp_path: Path, word: str, lasts_s: int
) -> None:
    run, region = TrueRun([Stretch("n1", 2, lasts_s)]), PlayedRegion()
    [shown] = run.squeue()
    running = SlurmJob({**shown, "job_state": ["RUNNING"], "admin_comment": word})
    [record] = run.jobcomp()
    (tmp_path / "1-9-1.json").write_bytes(
        json.dumps({**json.loads(record), "admin_comment": word}).encode()
    )
    ended(tmp_path, region).publish()
    _, by_look = envelopes(running.message(), SITE)
    _, started, finished = region.told
    assert (started.id, started.job_started) == (by_look.id, by_look.job_started)
    assert finished.HasField("job_finished")


def test_what_never_ran_has_no_start(tmp_path: Path) -> None:
    region = PlayedRegion()
    [record] = TrueRun([]).jobcomp()
    (tmp_path / "1-9-1.json").write_bytes(record)
    ended(tmp_path, region).publish()
    assert [event.WhichOneof("payload") for event in region.told] == [
        "job_submitted",
        "job_finished",
    ]


def test_what_is_not_taken_stays_until_it_is(tmp_path: Path) -> None:
    region, file = PlayedRegion(), kept(tmp_path, 9)
    region.failures = [unanswered(grpc.StatusCode.UNAVAILABLE, "away")]
    with pytest.raises(UnansweredError):
        ended(tmp_path, region).publish()
    assert file.exists()
    ended(tmp_path, region).publish()
    assert (len(region.told), file.exists()) == (3, False)


class Refusing(PlayedRegion):
    """Refuses the end of one job."""

    def publish_all(self, events: Sequence[Envelope]) -> Mapping[int, str]:
        super().publish_all(events)
        return {
            at: "no"
            for at, event in enumerate(events)
            if event.job_finished.job_id.startswith("north/alpha/9/")
        }


@pytest.mark.parametrize("text", ["", "[]", "nine", "{}", "[" * 100_000, '{"jobid": 9}'])
def test_what_cannot_be_used_is_kept_aside_and_holds_up_no_other(tmp_path: Path, text: str) -> None:
    region, bad = Refusing(), tmp_path / "1-0-0.json"
    bad.write_text(text)
    kept(tmp_path, 9)
    kept(tmp_path, 10)
    (tmp_path / "resized-9-9").touch()
    (tmp_path / "3-0-0.json.new").write_text("half")
    ended(tmp_path, region).publish()
    assert {event.job_finished.job_id for event in region.told if event.HasField("job_finished")}
    aside = {file.name for file in (tmp_path / "refused").iterdir()}
    assert aside == {bad.name, "1795700019-9-1795700000.json"}
    assert not list(tmp_path.glob("*.json"))


def test_hundreds_are_published_in_order(tmp_path: Path) -> None:
    for number in range(1, 251):
        kept(tmp_path, number)
    region = PlayedRegion()
    ended(tmp_path, region).publish()
    assert len(region.told) == 750


@pytest.mark.parametrize(
    ("user_id", "name"), [(0, "root"), (4_000_000_000, "4000000000"), ("none", "unknown")]
)
def test_a_user_whom_slurm_has_no_name_of_is_the_one_of_the_number(
    tmp_path: Path, user_id: object, name: str
) -> None:
    kept(tmp_path, 9, username=None, user_id=user_id)
    region = PlayedRegion()
    ended(tmp_path, region).publish()
    assert region.told[0].job_submitted.user == name


def test_no_folder_is_nothing_to_publish(tmp_path: Path) -> None:
    ended(tmp_path / "none", PlayedRegion()).publish()
