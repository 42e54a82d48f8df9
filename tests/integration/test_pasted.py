"""README, the first job and the how-tos as their readers paste them, on one installation."""

import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil
import pytest
import typer
from coplace.v1.placement_service_pb2 import JOB_STANDING_DECIDED, JOB_STANDING_RESERVED

from cli.main import app
from cli.processes import TOGETHER
from deploy.local.supervision import Supervisor
from documents.reference.metrics import by_process
from tests.support.manager import ScriptedManager
from tests.support.processes import gone
from tests.support.reader import Reader
from tests.support.snippets import HOW_TO, REPOSITORY, blocks, programs, write_programs

README = REPOSITORY / "README.md"
FIRST_JOB = REPOSITORY / "docs" / "first-job.md"
# Their lines are those of the first job, targets, and commands that a test of its own plays.
PAGES = (
    *(README, REPOSITORY / "docs" / "demo.md", REPOSITORY / "CONTRIBUTING.md"),
    *sorted((REPOSITORY / "docs" / "first-day").glob("*.md")),
)
# Makes the environment, which the tests have.
_SET_UP = "make setup\n"
_LAST = "coplace down"
# A line of a how-to that is typed, not one that is printed or that belongs into a file.
PROGRAM = re.compile(
    r"(?:\w+=\S+ )?(coplace|coplace-agent|cp|docker|helm|kubectl|pip|podman|python|sbatch|set -a) "
)
# How-tos' lines that need another system than this one, by their beginnings, with what plays them.
ELSEWHERE = {
    "python -m pytest test_adapter.py": "tests/unit/coplace_testing/test_examples.py",
    "python examples/resource_manager.py": "tests/integration/test_watch.py",
    "python -m pytest -q": "tests/unit/docs/test_worked_examples.py",
    "python -m tests.unit.services.test_row_versions": "tests/unit/docs/test_worked_examples.py",
    "python spending.py": "tests/unit/docs/test_archive_example.py",
    "coplace archive": "tests/unit/cli/archive/test_archive.py",
    "coplace-agent": "tests/unit/agent/test_command.py",
    "coplace accounts allocate": "tests/unit/cli/test_billing.py",
    "coplace accounts balance": "tests/unit/cli/test_billing.py",
    "coplace accounts close": "tests/unit/cli/test_billing.py",
    "coplace accounts statement": "tests/unit/cli/test_billing.py",
    "coplace audit": "tests/integration/test_authority.py",
    "coplace jobs --user": "tests/unit/cli/test_answers.py",
    "coplace login": "tests/unit/cli/login/test_login.py",
    "coplace logout": "tests/unit/cli/login/test_login.py",
    "coplace authority": "tests/integration/test_authority.py",
    "coplace certificates": "tests/integration/test_secure.py",
    "coplace down": "tests/integration/test_secure.py",
    "coplace conformance": "tests/integration/test_conformance.py",
    "coplace dlq show": "tests/integration/test_how_to.py",
    "coplace dlq replay": "tests/integration/test_how_to.py",
    "coplace local": "tests/integration/test_local_runner.py",
    "coplace models pin": "tests/unit/cli/test_models.py",
    "coplace models rollback": "tests/unit/cli/test_models.py",
    "coplace models unpin": "tests/unit/cli/test_models.py",
    "coplace models show": "tests/unit/cli/test_models.py",
    "coplace policy set order": "tests/integration/test_nodes_on_kafka.py",
    "coplace policy allow": "tests/unit/cli/test_policy.py",
    "coplace quote": "tests/unit/cli/test_quote.py",
    "coplace report": "tests/e2e/test_compose.py",
    "coplace licence": "tests/integration/test_nodes_on_kafka.py",
    "coplace reservation": "tests/integration/test_nodes_on_kafka.py",
    "coplace price": "tests/unit/cli/test_price.py",
    "coplace profile": "tests/unit/cli/profile/test_profile_cli.py",
    "coplace energy ask --app lu.C": "tests/integration/test_energy_on_kafka.py",
    "coplace evaluate": "tests/unit/lab/evaluate/test_evaluate_degradation.py",
    "coplace outcome": "tests/unit/cli/test_orders.py",
    "coplace preflight": "tests/integration/test_preflight.py",
    "coplace restore": "tests/contract/test_restore.py",
    "coplace slurm catch-up": "tests/integration/test_slurm_accounts.py",
    "coplace slurm check": "tests/unit/cli/slurm/test_slurm_cli.py",
    "coplace slurm reconcile": "tests/integration/test_slurm_accounts.py",
    "coplace kubernetes release": "tests/unit/cli/kubernetes/test_kubernetes_cli.py",
    "coplace slurm release": "tests/unit/cli/slurm/test_slurm_cli.py",
    "coplace simulate --swf small.swf": "tests/unit/docs/test_worked_examples.py",
    "coplace topics acls": "tests/unit/shared/catalogue/access/test_rules.py",
    "coplace topics create --acls": "tests/integration/test_access.py",
    "coplace tariff": "tests/unit/cli/test_tariff.py",
    "coplace tokens": "tests/integration/test_authority.py",
    "coplace up": "tests/integration/test_pasted.py",
    "coplace wait": "tests/e2e/test_compose.py",
    "coplace webhook": "tests/unit/services/webhooks/test_commands.py",
    "coplace why 17": "tests/unit/cli/slurm/test_numbers.py",
    "COPLACE_ENERGY_API_PORT": "cli/processes.py",
    "COPLACE_PLACEMENT_ADDRESS": "tests/helm/test_chart.py",
    "COPLACE_PLACEMENT_PORT": "cli/processes.py",
    "cp deploy/slurm": "tests/integration/test_slurm.py",
    "cp services/slurm/adapters/giving_back.py": "tests/integration/test_slurm_fallback.py",
    "systemctl enable --now coplace-slurm": "tests/unit/deploy/slurm/test_unit.py",
    "docker": "tests/e2e/test_compose.py",
    "helm": "tests/helm/test_chart.py",
    "kubectl": "tests/helm/test_chart.py",
    "pip": "tests/integration/test_pasted.py",
    "podman": "tests/e2e/test_compose.py",
    "python -m grpc_tools.protoc": "tests/integration/test_pasted.py",
    "python -m services": "cli/processes.py",
    "sbatch": "tests/integration/test_slurm.py",
    "set -a": "tests/e2e/test_compose.py",
}


def story() -> list[str]:
    """All that the page of the first job has its readers type, block by block."""
    return [block.text for block in blocks(FIRST_JOB) if block.is_shell]


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Has pasted the first job up to what stops the installation."""
    found = Reader(tmp_path_factory.mktemp("reader"))
    (found.folder / "examples").symlink_to(REPOSITORY / "examples")
    yield found
    found.paste("coplace down --delete")


@pytest.fixture(scope="module")
def half_way(reader: Reader) -> str:
    """What is shown of a start that was killed before its end."""
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
    """What the story said, from a start that repairs what was half-way to before its end."""
    assert half_way
    typed = "".join(story()).removeprefix(_SET_UP)
    result = reader.paste(typed[: typed.index(_LAST)])
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_a_start_that_was_killed_half_way_is_reported(half_way: str) -> None:
    assert "error: another `coplace up` or `coplace down` is at work" in half_way
    assert "Coplace is not whole" in half_way


def test_the_story_goes_from_the_submission_to_the_statement(told: str) -> None:
    assert re.search(r"^6 processes ready in \d+ s$", told, re.MULTILINE)
    [job] = set(re.findall(r"north/alpha/1/\d+", told))
    assert f"{job} is to start" in told
    assert f"start {job} on 4 nodes at 3.0 GHz" in told
    assert f"finished {job}" in told
    assert f"{job} has ended" in told
    [price_su] = re.findall(rf"^physics {job} ([\d.]+)$", told, re.MULTILINE)
    assert float(price_su) > 0
    assert re.search(rf"^\| {job} +\| alpha +\| +0\.1\d\d \| +{price_su}", told, re.MULTILINE)
    assert re.search(rf"^\| physics +\| +{price_su} \|$", told, re.MULTILINE)
    assert re.search(r"^\| placement .* \| ready \|$", told, re.MULTILINE)
    assert re.search(r"^\| alpha +\| gold-6354 +\| +64 \| +64 \| +0 ", told, re.MULTILINE)
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
    assert services == TOGETHER.keys()
    shown = {name: metrics(ports[name]) for name in services}
    for name, lines in shown.items():
        ready = [value for shown, value in lines.items() if shown.startswith("coplace_ready")]
        assert ready == [1] * len(TOGETHER[name]), name
        assert lines["process_resident_memory_bytes"] > 0, name
        assert any(line.startswith("coplace_") and "_total" in line for line in lines), name
    documented = {each.name for found in by_process().values() for each in found}
    assert {base(name) for lines in shown.values() for name in lines} - documented == {""}
    assert until_at_rest(ports["placement"]) == 0
    assert shown["placement"]['coplace_nodes_free{cluster="alpha"}'] == 64
    assert shown["placement"]["coplace_jobs_waiting"] == 0


def metrics(port: int) -> dict[str, float]:
    """What a process shows."""
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in pairs}


def base(series: str) -> str:
    """The metric of ours that a series is of; nothing for those of the process itself."""
    found = re.match(r"(coplace_\w+?)(?:_bucket|_sum|_count)?(?:\{|$)", series)
    return found[1] if found else ""


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
    result = reader.paste("coplace smoke-test --within 180; coplace clusters")
    assert result.returncode == 0, result.stdout + result.stderr
    steps = ["is submitted", "started on smoke-test, as decided", r"charged 0\.\d+ SU"]
    assert re.search(".*\n.*".join(steps), result.stdout)
    assert not re.search(r"^\| smoke-test +\|", result.stdout, re.MULTILINE)


@pytest.fixture(scope="module")
def manager(reader: Reader, told: str) -> ScriptedManager:
    """Of p1, the cluster of the how-tos; a job of nearly all of it runs, and two small ones."""
    assert told
    found = ScriptedManager("north", "p1", reader.installation.record.environment)
    found.declare(512)
    for number in (4715, 4716):
        found.submit(job(number), 4)
        found.start(job(number))
    return found


def job(number: int) -> str:
    """The jobs of the how-tos."""
    return f"north/p1/{number}/1767225600"


def _from_now_on(hour: re.Match[str]) -> str:
    """An hour of the how-to's day, which begins at 7, as one from the present hour on."""
    present = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    return (present + timedelta(hours=int(hour[1]) - 7)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture(scope="module")
def pasted(reader: Reader, manager: ScriptedManager) -> dict[str, str]:
    """What each how-to's commands said, in an order in which a day would bring them."""
    write_programs(HOW_TO / "power-caps.md", reader.folder, "yaml")
    write_programs(HOW_TO / "operate.md", reader.folder, "csv")
    # A signal that is over is refused, and one that begins later.
    for name, rows in programs(HOW_TO / "power-caps.md", "csv").items():
        (reader.folder / name).write_text(re.sub(r"2026-07-01T(\d\d):00:00Z", _from_now_on, rows))
    found = {}

    def paste(document: str) -> None:
        result = reader.paste("".join(typed(document)))
        assert result.returncode == 0, (document, result.stdout, result.stderr)
        found[document] = result.stdout + result.stderr

    manager.submit(job(4711), 500)
    large = manager.start(job(4711))
    manager.submit(job(4714), 500)
    manager.until(job(4714), JOB_STANDING_RESERVED)
    paste("ask-why.md")
    manager.finish(large, 500)
    manager.until(job(4714), JOB_STANDING_DECIDED)
    for document in (
        *("silent-resource-managers.md", "power-caps.md", "operate.md", "ask-for-projections.md"),
        *("dead-letters.md", "restore.md", "run-on-one-machine.md", "drain-nodes.md"),
    ):
        # What a page before imported counts within three seconds: nobody turns pages faster.
        time.sleep(3.0)
        paste(document)
    return found


def typed(document: str) -> Iterator[str]:
    """The commands of a how-to that are pasted here, each with the answer that it asks for."""
    for line in commands(document):
        if not any(line.startswith(each) for each in ELSEWHERE):
            yield line + "\n"
            if line.startswith("coplace energy push") and "--dry-run" not in line:
                yield "y\n"


def commands(document: str) -> list[str]:
    """What a how-to has its readers type; a line that ends in a backslash goes on in the next."""
    found = (block.text for block in blocks(HOW_TO / document) if block.is_shell)
    lines = "".join(found).replace("\\\n", "").splitlines()
    return [line for line in lines if PROGRAM.match(line)]


@pytest.mark.long
def test_a_day_of_an_operator_goes_as_the_how_tos_say(pasted: dict[str, str]) -> None:
    assert f"{job(4714)} waits" in pasted["ask-why.md"]
    silent = pasted["silent-resource-managers.md"]
    assert f"{job(4714)} is to start: its resource manager has not confirmed it yet" in silent
    assert f"seized attempt 1 (grant 1) of {job(4714)}: it waits again as attempt 2" in silent
    caps = pasted["power-caps.md"]
    assert re.search(r"^\| cluster p1 +\| +none \| +56,320 ", caps, re.MULTILINE)
    assert re.search(r"^declared for cluster p1:\n  90,000 W from 20", caps, re.MULTILINE)
    assert f"to be resumed: {job(4716)}, which runs" in caps
    operate = pasted["operate.md"]
    assert re.search(
        r"^\| [\d: -]+ \| withdrawn \| seized by \S+@\S+: p1 burnt", operate, re.MULTILINE
    )
    assert f"to be requeued: {job(4715)}, which runs" in operate
    assert re.search(
        r"^\| policy +\| priority-inc-v +\| priority-inc-v +\|$", operate, re.MULTILINE
    )
    assert "policy: min-energy, was priority-inc-v" in operate
    assert "published coefficients of 1 node models, 1 signatures" in operate
    drained = pasted["drain-nodes.md"]
    assert re.search(
        rf"^\| p1-\[0008-0507\] +\| +500 \| allocated \| {job(4714)} ", drained, re.MULTILINE
    )
    assert "undeclared p1: 3 jobs or more run there" in drained
    assert set(re.findall(r"\t(\w+)$", pasted["restore.md"], re.MULTILINE)) == {"fits"}


def test_every_line_of_the_how_tos_is_pasted_here_or_played_by_a_test_of_its_own(
    pasted: dict[str, str],
) -> None:
    played = {document.name: commands(document.name) for document in HOW_TO.glob("*.md")}
    assert sum(map(len, played.values())) > 60
    here = {bare(line) for document in pasted for line in played[document]}
    for document, lines in played.items():
        for line in lines:
            others = [test for start, test in ELSEWHERE.items() if line.startswith(start)]
            assert bare(line) in here or others, f"{document}: nobody plays {line!r}"
            assert all((REPOSITORY / test).exists() for test in others), line
            assert_known(line)


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


def bare(line: str) -> str:
    """A line without its comment."""
    return shlex.join(shlex.split(line, comments=True))


@pytest.mark.parametrize("document", ["bill-from-prices.md", "connect-a-resource-manager.md"])
def test_a_client_needs_what_its_how_to_installs_and_generates(
    tmp_path: Path, document: str
) -> None:
    (tmp_path / "proto").symlink_to(REPOSITORY / "proto")
    installs, generates, *_ = commands(document)
    for distribution in installs.removeprefix("pip install ").split():
        assert version(distribution)
    reads = "PYTHONPATH=. python -c 'from coplace.v1 import placement_pb2 as one; print(one)'"
    result = Reader(tmp_path).paste(f"{generates}\n{reads}\n")
    assert f"{tmp_path}/coplace/v1/placement_pb2.py" in result.stdout, result.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_line_of_a_page_is_of_the_first_job_or_a_target_or_a_command_with_known_options(
    page: Path,
) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    first_job = {bare(line) for text in story() for line in text.splitlines()}
    every = [line for block in blocks(page) if block.is_shell for line in block.text.splitlines()]
    assert every
    for line in every:
        name, *arguments = shlex.split(line, comments=True)
        if name == "make":
            assert arguments[0] in targets, line
        elif bare(line) not in first_job:
            assert name == "coplace", line
            assert_known(line)


def assert_known(line: str) -> None:
    """Whether a line that calls `coplace` names a command and options that it has."""
    name, *arguments = shlex.split(line, comments=True)
    if name == "coplace":
        command: Any = typer.main.get_command(app)
        while arguments and (found := getattr(command, "commands", {}).get(arguments[0])):
            command = found
            del arguments[0]
        known = {
            word for option in command.params for word in (*option.opts, *option.secondary_opts)
        }
        assert {word for word in arguments if word.startswith("-")} <= known, line
