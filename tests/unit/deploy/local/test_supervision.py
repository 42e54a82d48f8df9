import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.local.errors import LocalServersError, NotRunningError
from deploy.local.program import Program
from deploy.local.supervision import Supervisor, launch_script, program_section

_PRINT = "import os, sys, json; print(json.dumps([sys.argv[1:], os.environ['VALUE']]))"
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20)


@settings(max_examples=10, deadline=None)
@given(arguments=st.lists(_TEXT, max_size=3), value=_TEXT)
def test_the_launch_script_passes_any_argument_and_value_whole(
    arguments: list[str], value: str
) -> None:
    argv = [sys.executable, "-S", "-c", _PRINT, *arguments]
    with tempfile.NamedTemporaryFile("w+") as pid_file:
        pid_file.write(str(os.getpid()))
        pid_file.flush()
        script = launch_script(Program("p", argv, {"VALUE": value}), Path(pid_file.name))
        printed = subprocess.check_output(["sh", "-c", script])
    assert json.loads(printed) == [arguments, value]


def test_the_launch_script_runs_nothing_once_its_supervisor_has_ended(tmp_path: Path) -> None:
    pid_file = tmp_path / "supervisord.pid"
    pid_file.write_text("1")
    script = launch_script(Program("p", ["echo", "ran"]), pid_file)
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


def test_a_one_shot_program_is_restarted_only_after_a_failure() -> None:
    for one_shot, restarted in ((True, "unexpected"), (False, "true")):
        program = Program("p", ["true"], one_shot=one_shot)
        section = program_section(program, Path("/a%b/p.sh"), Path("/a%b/p.log"))
        assert f"autorestart={restarted}\n" in section
        assert "stdout_logfile=/a%%b/p.log" in section, "a percent sign is escaped"


def test_a_run_folder_that_is_too_deep_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LocalServersError, match="too long for a Unix socket"):
        Supervisor(tmp_path / ("d" * 100)).launch(tied_to_caller=True)


def test_asking_a_supervisor_that_does_not_run_says_how_to_start_it(tmp_path: Path) -> None:
    with pytest.raises(NotRunningError, match="coplace local up"):
        Supervisor(tmp_path).states()
