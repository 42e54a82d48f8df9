"""README as its readers paste it, and the installation that it starts."""

import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
import typer

from cli.installation.installation import Installation
from cli.main import app
from deploy.local.supervision import Supervisor
from tests.support.processes import gone
from tests.support.snippets import REPOSITORY, blocks, write_programs

README = REPOSITORY / "README.md"
# Makes the environment, which the tests have.
_SET_UP = "make setup\n"
_LAST = "coplace down"


def shell_blocks() -> list[str]:
    """All that README has its readers type, block by block."""
    return [block.text for block in blocks(README) if block.is_shell]


def story() -> list[str]:
    """The blocks from the set-up to the last word of `Run it`, without these two."""
    found = shell_blocks()
    [begin] = [number for number, text in enumerate(found) if text.startswith(_SET_UP)]
    [end] = [number for number, text in enumerate(found) if _LAST in text]
    return found[begin : end + 1]


class Reader:
    """Somebody with a shell in a folder, whose installation is none but this."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        kept = {name: value for name, value in os.environ.items() if "COPLACE" not in name}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        own = {"XDG_STATE_HOME": str(self.state), "PATH": path, "COLUMNS": "80"}
        # A price a second after the end of its job, in place of a minute.
        self.environment = {**kept, **own, "COPLACE_PRICING_GRACE_S": "1"}

    def paste(self, text: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Type it into a new shell."""
        return subprocess.run(
            ["bash", "-eu"],
            input=text,
            cwd=folder or self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    @property
    def installation(self) -> Installation:
        """What it started."""
        return Installation(self.state / "coplace" / "installation")


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Has pasted README up to what stops the installation."""
    found = Reader(tmp_path_factory.mktemp("reader"))
    write_programs(README, found.folder)
    yield found
    found.paste("coplace down --delete")


@pytest.fixture(scope="module")
def half_way(reader: Reader) -> str:
    """What is told of a start that was killed before its end."""
    start = subprocess.Popen(
        ["coplace", "up"], env=reader.environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    with start:
        while not reader.installation.is_running:
            time.sleep(0.05)
        refused = reader.paste("coplace down")
        start.kill()
    return refused.stderr + reader.paste("coplace status").stdout


@pytest.fixture(scope="module")
def told(reader: Reader, half_way: str) -> str:
    """What the story said, from a start that mends what was half-way to before its end."""
    assert half_way
    typed = "".join(story()).removeprefix(_SET_UP)
    result = reader.paste(typed[: typed.index(_LAST)])
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_a_start_that_was_killed_half_way_is_told(half_way: str) -> None:
    assert "error: another `coplace up` or `coplace down` is at work" in half_way
    assert "Coplace is not whole" in half_way


def test_the_story_goes_from_the_submission_to_the_statement(told: str) -> None:
    assert re.search(r"^11 processes ready in \d+ s$", told, re.MULTILINE)
    [job] = set(re.findall(r"north/alpha/1/\d+", told))
    assert f"{job} is to start" in told
    assert f"start {job} on 4 nodes at 3.1 GHz" in told
    assert f"finished {job}" in told
    assert f"{job} has ended" in told
    [price_su] = re.findall(rf"^physics {job} ([\d.]+)$", told, re.MULTILINE)
    assert float(price_su) > 0
    assert re.search(rf"^\| {job} +\| alpha +\| +0\.1\d\d \| +{price_su}", told, re.MULTILINE)
    assert re.search(rf"^\| physics +\| +{price_su} \|$", told, re.MULTILINE)
    assert re.search(r"^\| placement .* \| ready \|$", told, re.MULTILINE)
    assert re.search(r"^\| alpha +\| gold-6254 +\| +64 \| +64 \| +0 ", told, re.MULTILINE)
    assert re.search(rf"^\| {job} +\| finished \| ada ", told, re.MULTILINE)
    [submitted, *_, charged] = re.findall(
        r"^\| \d{4}-\d\d-\d\d [\d:]{8} \| (.*) \|$", told, re.MULTILINE
    )
    assert submitted.startswith("submitted")
    assert charged.startswith(f"charged   | {price_su} SU to physics")


def test_what_is_shown_fits_80_columns(told: str) -> None:
    assert max(len(line) for line in told.splitlines() if line.startswith("|")) <= 80


@pytest.mark.usefixtures("told")
def test_it_listens_on_loopback_only(reader: Reader) -> None:
    supervisor = psutil.Process(Supervisor(reader.installation.folder).pid())
    listening = [
        connection.laddr.ip
        for process in supervisor.children(recursive=True)
        for connection in process.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN
    ]
    assert len(listening) >= 11
    assert {ip.removeprefix("::ffff:") for ip in listening} == {"127.0.0.1"}


@pytest.mark.usefixtures("told")
def test_it_is_found_from_any_folder(reader: Reader) -> None:
    assert reader.paste("coplace tail jobs.events", Path("/")).stdout.count("JobFinished") == 1


@pytest.mark.usefixtures("told")
def test_each_service_measures_itself_and_at_rest_nothing_waits(reader: Reader) -> None:
    ports = {each.name: each.http_port for each in reader.installation.processes()}
    services = ports.keys() - {"kafka", "redis"}
    assert len(services) == 9
    shown = {name: metrics(ports[name]) for name in services}
    for name, lines in shown.items():
        assert lines["coplace_ready"] == 1, name
        assert lines["process_resident_memory_bytes"] > 0, name
        assert any(line.startswith("coplace_") and "_total" in line for line in lines), name
    assert until_at_rest(ports["placement"]) == 0
    assert shown["placement"]['coplace_nodes_free{cluster="alpha"}'] == 64
    assert shown["placement"]["coplace_jobs_waiting"] == 0


def metrics(port: int) -> dict[str, float]:
    """What a process shows."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def until_at_rest(port: int) -> float:
    """How many records wait for the stages of a process in the end."""
    for _ in range(100):
        shown = metrics(port)
        waiting = sum(value for name, value in shown.items() if "lag_records" in name)
        if not waiting:
            break
        time.sleep(0.1)
    return waiting


@pytest.mark.usefixtures("told")
def test_one_job_comes_through_from_its_submission_to_its_price(reader: Reader) -> None:
    result = reader.paste("coplace smoke-test --within 60; coplace clusters")
    assert result.returncode == 0, result.stdout + result.stderr
    steps = ["is submitted", "started on smoke-test, as decided", r"charged 0\.\d+ SU"]
    assert re.search(".*\n.*".join(steps), result.stdout)
    assert not re.search(r"^\| smoke-test +\|", result.stdout, re.MULTILINE)


@pytest.mark.usefixtures("told")
def test_stopping_leaves_no_process_and_deleting_no_file(reader: Reader) -> None:
    folder = reader.installation.folder
    supervisor = psutil.Process(Supervisor(folder).pid())
    everything = [supervisor, *supervisor.children(recursive=True)]
    typed = "".join(story())
    down = reader.paste(typed[typed.index(_LAST) :])
    assert "Coplace is down; its data in" in down.stdout
    assert gone(everything, within_s=1.0)
    assert (folder / "kafka").is_dir()
    assert "was not up" in reader.paste("coplace down --delete").stdout
    assert not folder.exists()


def test_every_other_line_of_the_readme_is_a_target_or_a_command_with_known_options() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    rest = [line for text in shell_blocks() if text not in story() for line in text.splitlines()]
    assert rest
    for line in rest:
        name, *arguments = shlex.split(line, comments=True)
        if name == "make":
            assert arguments[0] in targets, line
        else:
            assert name == "coplace", line
            command: Any = typer.main.get_command(app)
            while arguments and (found := getattr(command, "commands", {}).get(arguments[0])):
                command = found
                del arguments[0]
            known = {
                word for option in command.params for word in (*option.opts, *option.secondary_opts)
            }
            assert {word for word in arguments if word.startswith("-")} <= known, line
