"""Plays a demo through the containers of docker-compose.yml and compares it with the embedded run.

Run it with `make compose-check`; with `--secure` it plays encrypted and with passwords. Images that
cannot be pulled are replaced by local builds; what only observes (collector, Prometheus,
Grafana) is left out.
"""

import argparse
import fcntl
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from deploy.cache import cache_dir
from deploy.compose.asking import Asking, require_answers, require_names
from deploy.compose.images import provide_images
from deploy.compose.podman import Podman, PodmanError
from deploy.compose.project import Project
from deploy.local.errors import LocalServersError
from deploy.local.ports import free_ports
from deploy.local.prerequisites import require_command

SERVERS = ("kafka", "redis")
SERVICES = (
    "ingest",
    "ingest-jobcomp",
    "energy",
    "appdb-cache",
    "energy-api",
    "prediction",
    "placement",
    "watch",
    "pricing",
    "accounts",
)
TOPICS = "topics"
CREDENTIALS = "credentials"
EMULATOR = "simulation"
# Started once the run is over; all but webhooks are asked over HTTP.
ASKED = ("archive", "history", "rest", "webhooks")
# Without one an emulated run is that of placement alone, which the check compares with.
NOT_PLAYED = ("planner", *ASKED)
# Beside what a site has of its own.
OF_A_SITE = ("slurm",)

_NAME = "coplace-check"
_DEMO = Path(__file__).with_name("demo.env")
_OPERATOR = Path(__file__).with_name("operator.env")
_OUT = Path("run/compose-check")
_JOBS = 100
_SEED = 1
_HEALTHY_WITHIN_S = 120.0
_RUN_WITHIN_S = 300.0


def main() -> None:
    """Exit with a message that names the problem unless both runs are equal."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--secure", action="store_true")
    secure = parser.parse_args().secure
    try:
        with _alone():
            _check(_tell_since(time.monotonic()), secure=secure)
    except (LocalServersError, PodmanError, subprocess.SubprocessError) as error:
        sys.exit(f"compose-check: {error}")


def _check(tell: Callable[[str], None], *, secure: bool) -> None:
    require_command("podman", "The check of the compose file", "podman")
    shutil.rmtree(_OUT, ignore_errors=True)
    _OUT.mkdir(parents=True)
    podman = Podman(cache_dir() / "containers", _run_dir())
    provide_images(podman, tell)
    tell(f"playing {_JOBS} jobs embedded")
    _coplace("demo", f"--seed={_SEED}", f"--jobs={_JOBS}", "--out=embedded")
    tell(f"playing {_JOBS} jobs through the containers")
    _play_in_containers(podman, tell, secure=secure)
    _coplace("compare", "embedded", "containers")
    tell("the containers decided and charged what the embedded run did")


def _play_in_containers(podman: Podman, tell: Callable[[str], None], *, secure: bool) -> None:
    variables = _variables()
    project = Project(podman, _NAME, variables, secure=secure)
    # An earlier check may have been killed together with what would have cleaned up after it.
    project.down()
    with project.taken_down():
        try:
            credentials = _make_credentials(project, tell) if secure else None
            _start(project, tell, secure=secure)
            _coplace("wait", f"--jobs={_JOBS}", as_operator=secure, **variables)
            _coplace(*("report", "--redis", "--out=containers"), as_operator=secure, **variables)
            _ask(project, variables, credentials, tell)
            if credentials:
                _require_secrecy(project, credentials)
                tell("no secret is disclosed")
        except BaseException:
            print(project.logs((*SERVERS, TOPICS, *SERVICES, EMULATOR, *ASKED)), file=sys.stderr)
            raise


def _ask(
    project: Project,
    variables: Mapping[str, str],
    credentials: Path | None,
    tell: Callable[[str], None],
) -> None:
    """Ask over HTTP what came of the run; of a secure one, as a caller without a token."""
    project.up(ASKED)
    project.wait_until_healthy(ASKED, _HEALTHY_WITHIN_S)
    port = variables["COPLACE_PUBLISH_REST"]
    if credentials:
        require_names(Asking(f"https://localhost:{port}", _OUT / "operator/ca.pem"))
    else:
        require_answers(Asking(f"http://127.0.0.1:{port}"), _JOBS)
    tell(f"healthy, and answered over HTTP: {', '.join(ASKED)}")


def _make_credentials(project: Project, tell: Callable[[str], None]) -> Path:
    """Have them made in their volumes, and copied to this machine."""
    project.run(CREDENTIALS)
    for name in ("operator", "credentials"):
        project.copy_out(CREDENTIALS, f"/credentials/{name}", _OUT)
    tell("credentials are made")
    return _OUT / "credentials"


def _require_secrecy(project: Project, credentials: Path) -> None:
    """No password is in an environment, a process list or a log. Raises PodmanError."""
    running = (*SERVERS, *SERVICES)
    told = project.described(running) + project.logs((*running, CREDENTIALS, TOPICS, EMULATOR))
    passwords = {file.stem: file.read_text().strip() for file in credentials.glob("*.password")}
    if found := sorted(user for user, password in passwords.items() if password in told):
        raise PodmanError(f"passwords can be read in containers: {', '.join(found)}")
    if len(passwords) < len(SERVICES):
        raise PodmanError(f"{credentials} has passwords of {', '.join(sorted(passwords))} alone")


def _start(project: Project, tell: Callable[[str], None], *, secure: bool) -> None:
    """In steps, since not every podman waits for the health that the compose file asks for."""
    for services in (SERVERS, SERVICES):
        if services == SERVICES and secure:
            # Before, Kafka believes nobody, and all would try in vain.
            project.run(TOPICS)
        elif services == SERVICES:
            project.up([TOPICS])
        project.up(services)
        project.wait_until_healthy(services, _HEALTHY_WITHIN_S)
        tell(f"healthy: {', '.join(services)}")
    project.up([EMULATOR])


def _variables() -> dict[str, str]:
    """Settings of the containers, and of the command line on this machine."""
    kafka_port, redis_port, ingest_port, energy_port, placement_port, watch_port, *others = (
        free_ports(13)
    )
    rest_port, history_port, webhooks_port, *others = others
    tokens = dict(zip(("INGEST", "ENERGY", "PLACEMENT", "WATCH"), others, strict=True))
    lines = _DEMO.read_text().splitlines()
    return {
        **dict(line.split("=", 1) for line in lines if not line.startswith("#")),
        "COPLACE_KAFKA_BOOTSTRAP": f"127.0.0.1:{kafka_port}",
        "COPLACE_REDIS_URL": f"redis://127.0.0.1:{redis_port}/0",
        "COPLACE_NAMESPACE": _NAME,
        "COPLACE_SIMULATION_SEED": str(_SEED),
        "COPLACE_SIMULATION_JOBS": str(_JOBS),
        "COPLACE_OTLP_ENDPOINT": "",
        "COPLACE_PUBLISH_KAFKA": str(kafka_port),
        "COPLACE_PUBLISH_REDIS": str(redis_port),
        "COPLACE_PUBLISH_INGEST": str(ingest_port),
        "COPLACE_PUBLISH_ENERGY": str(energy_port),
        "COPLACE_PUBLISH_PLACEMENT": str(placement_port),
        "COPLACE_PUBLISH_WATCH": str(watch_port),
        "COPLACE_PUBLISH_REST": str(rest_port),
        "COPLACE_PUBLISH_HISTORY": str(history_port),
        "COPLACE_PUBLISH_WEBHOOKS": str(webhooks_port),
        **{f"COPLACE_PUBLISH_{name}_TOKENS": str(port) for name, port in tokens.items()},
    }


def _coplace(*arguments: str, as_operator: bool = False, **variables: str) -> None:
    """Run the command line on this machine, in the folder of the results."""
    command = [str(Path(sys.executable).with_name("coplace").absolute()), *arguments]
    if as_operator:
        sourced = f'set -a && source {shlex.quote(str(_OPERATOR.absolute()))} && exec "$@"'
        command = ["bash", "-c", sourced, "bash", *command]
    environment = {**os.environ, **variables}
    subprocess.run(command, cwd=_OUT, env=environment, timeout=_RUN_WITHIN_S, check=True)


def _run_dir() -> Path:
    """Podman's folder for what does not outlive a reboot."""
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/run") / "coplace"


def _tell_since(began_s: float) -> Callable[[str], None]:
    def tell(what: str) -> None:
        print(f"[{time.monotonic() - began_s:5.1f} s] {what}", flush=True)

    return tell


@contextmanager
def _alone() -> Iterator[None]:
    """Two checks would take each other's containers, so the second waits for the first."""
    cache_dir().mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "compose-check.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


if __name__ == "__main__":
    main()
