"""What Slurm's commands write is read, whatever its users typed, and their failures are
distinguished."""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from services.slurm.adapters.commands import Slurm, SlurmBusyError, SlurmError, SlurmRefusedError
from services.slurm.model.jobs import SlurmJob
from services.slurm.processor.orders import Release
from shared.slurm.grant_answer import GrantAnswer
from tests.unit.services.slurm.fields import JOB


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose programs come before all others."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return tmp_path


def write(folder: Path, name: str, said: bytes, status: int = 0) -> None:
    (folder / "said").write_bytes(said)
    program = folder / name
    out = "" if not status else ">&2"
    program.write_text(f"#!/bin/sh\ncat {folder / 'said'} {out}\nexit {status}\n")
    program.chmod(0o755)


def test_bytes_that_are_not_utf_8_lose_no_job(commands: Path) -> None:
    write(commands, "squeue", b'{"jobs": [{"job_id": 1, "name": "na\xefve\t"}, 7, {"job_id": 2}]}')
    assert [(job.job_id, job.fields.get("name")) for job in Slurm().jobs()] == [
        (1, "na\ufffdve\t"),
        (2, None),
    ]


@pytest.mark.parametrize(
    "said", [b"", b"[]", b"null", b'{"jobs": 7}', b"[" * 99_999, b'{"jobs"', b"\xff"]
)
def test_what_is_no_list_of_jobs_is_an_error_of_slurms(commands: Path, said: bytes) -> None:
    write(commands, "squeue", said)
    with pytest.raises(SlurmError):
        Slurm().jobs()


def test_a_job_is_asked_for_by_its_number_and_none_where_slurm_does_not_know_it(
    commands: Path,
) -> None:
    (commands / "squeue").write_text('#!/bin/sh\necho "{\\"jobs\\": [{\\"said\\": \\"$*\\"}]}"\n')
    (commands / "squeue").chmod(0o755)
    assert [job.fields["said"] for job in Slurm().jobs(17)] == ["--states=all --jobs=17 --json"]
    write(commands, "squeue", b"slurm_load_jobs error: Invalid job id specified", 1)
    assert Slurm().jobs(17) == []
    with pytest.raises(SlurmError):
        Slurm().jobs()


def test_of_a_heterogeneous_job_all_parts_are_asked_for(commands: Path) -> None:
    """Of the first one, some releases show that alone."""
    of = '"job_state": "{state}", "het_job_id": 7, "het_job_id_set": "7-8"'
    for state, numbers in (("PENDING", [7]), ("RUNNING", [7, 8])):
        first = f'{{"job_id": 7, "het_job_offset": 0, {of.format(state=state)}}}'
        other = f'{{"job_id": 8, "het_job_offset": 1, {of.format(state=state)}}}'
        (commands / "squeue").write_text(
            f"""#!/bin/sh
            case "$*" in
            *--jobs=7*) echo '{{"jobs": [{first}]}}';;
            *) echo '{{"jobs": [{first}, {other}]}}';;
            esac
            """
        )
        (commands / "squeue").chmod(0o755)
        found = Slurm().jobs(7)
        assert [job.job_id for job in found] == numbers
        assert len(found[0].parts or found) == 2


# A newer release, which writes older forms where it is asked to.
NEWER = """\
#!/bin/sh
case "$*" in
*--json=v0.0.45) form=v0.0.45;;
*--json=*) echo "unknown" >&2; exit 1;;
*) form=v0.0.47;;
esac
echo "$*" >> {folder}/asked
cat <<END
{{"meta": {{"plugin": {{"data_parser": "data_parser/$form"}}, "slurm": {{"release": "27.05.1"}}}},
 "jobs": [{{"job_id": 7, "job_state": ["PENDING"], "submit_time": {{"set": true, "number": 9}}}}]}}
END
"""


def test_of_a_newer_slurm_an_older_form_is_asked_for_and_that_is_noted_once(commands: Path) -> None:
    (commands / "squeue").write_text(NEWER.format(folder=commands))
    (commands / "squeue").chmod(0o755)
    slurm = Slurm()
    with capture_logs() as logs:
        assert [[job.job_id for job in slurm.jobs()] for _ in range(2)] == [[7], [7]]
    [noted] = logs
    assert noted["problem"].startswith(
        "Slurm 27.05.1 writes data_parser/v0.0.47, and Coplace knows "
    )
    asked = (commands / "asked").read_text().splitlines()
    older = "--json=v0.0.45"
    assert [line.rpartition(" ")[2] for line in asked] == ["--json", older, older]


def test_a_newer_slurm_that_writes_no_older_form_is_named_with_what_to_do(commands: Path) -> None:
    (commands / "squeue").write_text(NEWER.format(folder=commands).replace("0.0.45)", "0.0.44)"))
    (commands / "squeue").chmod(0o755)
    with pytest.raises(
        SlurmError, match=r"^Slurm 27\.05\.1 writes data_parser/v0\.0\.47, and.*insta"
    ):
        Slurm().jobs()


def test_jobs_none_of_which_can_be_read_are_an_error_that_names_the_release(commands: Path) -> None:
    form = '{"plugin": {"data_parser": "data_parser/v0.0.45"}, "slurm": {"release": "26.05.5"}}'
    write(commands, "squeue", f'{{"meta": {form}, "jobs": [{{"job_id": "7"}}]}}'.encode())
    with pytest.raises(
        SlurmError, match=r"^Slurm 26\.05\.5 writes data_parser/v0\.0\.45, in which"
    ):
        Slurm().jobs()


def test_later_versions_show_nodes_elsewhere(commands: Path) -> None:
    write(commands, "scontrol", b'{"nodes": [{"name": "n1"}]}')
    (commands / "sinfo").write_text("#!/bin/sh\necho '{\"sinfo\": []}'\n")
    (commands / "sinfo").chmod(0o755)
    assert Slurm().nodes() == [{"name": "n1"}]


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("slurm_update error: Invalid node name specified", SlurmRefusedError),
        ("Requested node configuration is not available", SlurmRefusedError),
        ("Job can not be altered now, try again later for job 7", SlurmBusyError),
        ("Unable to contact slurm controller (connect failure)", SlurmBusyError),
        ("", SlurmError),
    ],
)
def test_what_slurm_refuses_for_good_is_told_from_what_it_may_do_later(
    commands: Path, said: str, kind: type[SlurmError]
) -> None:
    write(commands, "scontrol", said.encode(), 1)
    with pytest.raises(SlurmError) as caught:
        Slurm().hold("7")
    assert type(caught.value) is kind
    assert caught.value.words == said


def test_a_job_that_is_over_is_left_alone(commands: Path) -> None:
    write(commands, "scontrol", b"slurm_suspend error: Job/step already completing", 1)
    Slurm().hold("7")


def test_a_command_that_waits_ends_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = tmp_path / "scontrol"
    waits.write_text("#!/bin/sh\ntouch begun\nexec sleep 60\n")
    waits.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    slurm, began_s = Slurm(), time.monotonic()
    with ThreadPoolExecutor() as threads:
        asked = threads.submit(slurm.config)
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        slurm.stop()
        with pytest.raises(SlurmError):
            asked.result()
    with pytest.raises(SlurmError, match="this process ends"):
        slurm.config()
    assert time.monotonic() - began_s < 30


def test_a_job_is_released_on_the_decided_nodes_and_on_no_more_of_them(commands: Path) -> None:
    (commands / "scontrol").write_text(f'#!/bin/sh\necho "$*" >>{commands / "asked"}\n')
    (commands / "scontrol").chmod(0o755)
    word = GrantAnswer(1, is_started=True, freq_ghz=2.1, submit_s=9, wanted="n7", sizes="2-4")
    Slurm().release("17", Release(("n[1-2]", "m1"), 5, word, count=3))
    changed, released = (commands / "asked").read_text().splitlines()
    assert changed.endswith(" ReqNodeList=n[1-2],m1 NumNodes=3-3")
    assert released == "release 17"
    assert GrantAnswer.parse(changed) == word
    even = Release(("n[1-2]",), 5, word._replace(cpus="1"), count=2, least_cpus=3)
    Slurm().release("17", even)
    changed = (commands / "asked").read_text().splitlines()[-2]
    assert changed.endswith(" NumNodes=2-2 MinCPUsNode=3")
    assert GrantAnswer.parse(changed) == even.word


def test_nodes_are_asked_for_by_one_command_where_sinfo_shows_groups(commands: Path) -> None:
    asked = commands / "asked"
    for name, said in (("sinfo", '{"sinfo": []}'), ("scontrol", '{"nodes": [{"name": "n1"}]}')):
        program = commands / name
        program.write_text(f"#!/bin/sh\necho {name} >>{asked}\necho '{said}'\n")
        program.chmod(0o755)
    slurm = Slurm()
    assert [slurm.nodes(), slurm.nodes()] == [[{"name": "n1"}]] * 2
    assert asked.read_text().split() == ["sinfo", "scontrol", "scontrol"]


def test_a_job_that_is_shown_as_before_is_the_same_object(commands: Path) -> None:
    def shown(*jobs: dict[str, Any]) -> list[SlurmJob]:
        write(commands, "squeue", json.dumps({"jobs": jobs}).encode())
        return slurm.jobs()

    slurm, other = Slurm(), {**JOB, "job_id": 18}
    first = shown(dict(JOB), other)
    again = shown({**JOB, "last_sched_evaluation": 7}, {**other, "time_limit": 9})
    assert again[0] is first[0]
    assert (again[1].asked_limit_min, first[1].asked_limit_min) == (9, 5)
    assert shown(other)[0].fields == first[1].fields
    assert "last_sched_evaluation" not in again[0].fields
