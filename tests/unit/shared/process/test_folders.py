"""What is written into a folder stays in it, whole."""

import os
from pathlib import Path

import pytest

from coplace_client.errors import UnusableError
from coplace_client.files import write_whole
from shared.process.folders import path_within, write_csv


def test_a_link_is_replaced_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "out" / "summary.json"
    victim.write_text("precious")
    path.parent.mkdir()
    path.symlink_to(victim)
    with write_whole(path) as fresh:
        fresh.write_text("new")
    assert (victim.read_text(), path.read_text()) == ("precious", "new")
    assert not path.is_symlink()


def test_a_second_name_of_a_file_elsewhere_is_not_written_through(tmp_path: Path) -> None:
    victim, path = tmp_path / "victim", tmp_path / "summary.json"
    victim.write_text("precious")
    os.link(victim, path)
    with write_whole(path) as fresh:
        fresh.write_text("new")
    assert (victim.read_text(), path.read_text()) == ("precious", "new")


def test_what_was_there_stays_until_the_new_file_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    path.write_text("old")

    def fail() -> None:
        with write_whole(path) as fresh:
            fresh.write_text("ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_new_files_have_the_rights_of_any_other(tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with write_whole(tmp_path / "new") as fresh:
        fresh.touch()
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_table_is_written_in_a_folder_that_is_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "jobs.csv"
    write_csv(path, ("job", "power_w"), iter([("a,b", 1.5), ['"c"', None], ("d\ne", "")]))
    assert path.read_bytes() == b'job,power_w\n"a,b",1.5\n"""c""",\n"d\ne",\n'


def test_a_table_whose_rows_fail_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "jobs.csv"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        write_csv(path, ("job",), ((1 // at,) for at in (1, 0)))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_table_is_written_to_a_pipe_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    pipe = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_csv(path, ("job",), [(1,)])
        assert os.read(pipe, 100) == b"job\n1\n"
    finally:
        os.close(pipe)
    assert path.is_fifo()


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "/etc/passwd", "a/b"])
def test_a_name_that_leads_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UnusableError, match="leads out of it"):
        path_within(tmp_path, name)


def test_a_folder_of_ours_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "kafka").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnusableError, match="is a link to another folder"):
        path_within(tmp_path, "kafka")
