"""What operators and analysts see of an archive."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from cli.archive import cli
from cli.archive.rebuilding import CannotRebuildError, Comparison, Sameness, rebuild
from shared.archive.record import ArchivedRecord
from shared.archive.storage import LocalFolder, Storage
from shared.archive.writing import PartitionArchive
from shared.process.settings import Settings
from shared.streams.on_kafka.deployment import Deployment
from tests.support.messaging import encoded, submission
from tests.unit.cli.command_line import coplace, refusal, rows_of, said
from tests.unit.shared.archive.records import T0_MS, TOPIC, TOPIC_ID
from tests.unit.shared.archive.test_writing import CUT

JOBS: Final = ("north/alpha/1", "north/alpha/2", "north/alpha/3")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Submissions of some jobs, and what is no event."""
    sent = encoded(*map(submission, JOBS))
    rows = [(each.key, each.value, each.headers) for each in sent]
    records = [
        ArchivedRecord(TOPIC, 0, offset, T0_MS + offset, *row)
        for offset, row in enumerate([*rows, (None, b"?", ())])
    ]
    found = PartitionArchive.resume(LocalFolder(tmp_path), TOPIC, 0, TOPIC_ID, 0, CUT)
    found.add(records)
    found.write(with_tail=True)
    return tmp_path


def test_what_is_archived_is_listed_by_kafka_partition_and_by_file(archive: Path) -> None:
    [row] = rows_of(said("archive", "list", "--archive", archive, "--output", "json"))
    assert (row["topic"], row["from"], row["to"], row["records"]) == (TOPIC, 0, 4, 4)
    files = rows_of(said("archive", "list", "--archive", archive, "--files", "--output", "json"))
    assert sum(each["records"] for each in files) == 4
    assert [each["is_full"] for each in files][-1] is False
    for each in files:
        assert Path(each["path"]).is_file()
    assert TOPIC in said("archive", "list", "--archive", archive)


def test_the_place_is_that_of_the_installation_where_none_is_given(archive: Path) -> None:
    done = coplace("archive", "list", "--output", "json", COPLACE_ARCHIVE_WHERE=str(archive))
    assert rows_of(done.stdout)[0]["topic"] == TOPIC


def test_events_are_shown_as_json_and_what_is_none_with_its_place(archive: Path) -> None:
    found = rows_of(said("archive", "show", TOPIC, "--archive", archive))
    assert [each["data"]["job_id"] for each in found[:3]] == list(JOBS)
    assert found[3]["rejected"] == "jobs.events/0/3"
    [one] = rows_of(said("archive", "show", TOPIC, "--archive", archive, "--key", JOBS[1]))
    assert one["data"]["job_id"] == JOBS[1]


def test_a_whole_archive_is_said_to_be_whole_and_a_damaged_file_is_named(archive: Path) -> None:
    done = coplace("archive", "verify", "--archive", archive)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "is whole" in done.stderr
    file = max((archive / TOPIC / "0").glob("0*.parquet"))
    file.write_bytes(file.read_bytes()[:-1])
    done = coplace("archive", "verify", "--archive", archive, "--output", "json")
    assert done.exit_code == 1
    [row] = rows_of(done.stdout)
    assert row["path"] == f"{TOPIC}/0/{file.name}"


def test_a_folder_without_an_archive_is_an_error_that_says_so(tmp_path: Path) -> None:
    for words in (["list"], ["verify"], ["show", TOPIC]):
        assert "holds no archive" in refusal("archive", *words, "--archive", tmp_path)


def test_a_topic_that_is_not_archived_is_an_error_that_says_so(archive: Path) -> None:
    assert "holds no commands" in refusal("archive", "show", "commands", "--archive", archive)
    words = ("archive", "show", TOPIC, "--archive", archive, "--key", "north/alpha/9")
    assert "holds nothing of jobs.events under the key 'north/alpha/9'" in refusal(*words)


def test_an_archive_is_not_built_into_a_folder_that_holds_something(archive: Path) -> None:
    deployment = Deployment.from_settings(Settings())
    with pytest.raises(CannotRebuildError, match="is not empty"):
        rebuild(deployment, LocalFolder(archive), archive, str)


@pytest.mark.parametrize(
    ("sameness", "code", "told"),
    [
        (Sameness.SAME, 0, "1 files: same bytes"),
        (Sameness.SAME_RECORDS, 0, "written by another pyarrow"),
        (Sameness.GONE, 0, "does not have its records any more"),
        (Sameness.DIFFERENT, 1, "1 files: different"),
    ],
)
def test_a_comparison_fails_where_a_file_differs(
    archive: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sameness: Sameness,
    code: int,
    told: str,
) -> None:
    index = PartitionArchive.resume(LocalFolder(archive), TOPIC, 0, TOPIC_ID, 0).index

    def compared(
        _deployment: Deployment, _storage: Storage, _to: Path, _told: Callable[[int], object]
    ) -> Sequence[Comparison]:
        return [Comparison("jobs.events/0/x", index.entries[0], sameness)]

    monkeypatch.setattr(cli, "rebuild", compared)
    done = coplace("archive", "rebuild", "--archive", archive, "--to", tmp_path / "anew")
    assert done.exit_code == code
    assert told in done.stdout
