"""`coplace local`: real servers on this machine, for as long as they are wanted."""

import subprocess
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from deploy.local.errors import LocalServersError
from deploy.local.readiness import is_ready
from deploy.local.run_state import RunState
from deploy.local.servers import LocalServers
from deploy.local.supervision import ProcessState
from deploy.local.waiting import last_lines

app = typer.Typer(no_args_is_help=True, help="Run Apache Kafka and Redis on this machine.")

RunDir = Annotated[Path, typer.Option(help="Folder of the servers' data, logs and state.")]
_RUN_DIR = Path("run")


@app.command()
def up(run_dir: RunDir = _RUN_DIR) -> None:
    """Start the servers in the background and print how to use them."""
    servers = LocalServers(run_dir)
    servers.up()
    typer.echo(f"export COPLACE_KAFKA_BOOTSTRAP={servers.kafka_bootstrap}")
    typer.echo(f"export COPLACE_REDIS_URL={servers.redis_url}")


@app.command()
def status(run_dir: RunDir = _RUN_DIR) -> None:
    """Show each process: its state, process id, age, and whether it is ready."""
    servers = LocalServers(run_dir)
    states, recorded = servers.states(), RunState.load(servers.run_dir)
    table = Table("process", "state", "pid", "uptime_s", "ready", "log")
    for state in states:
        ready = "yes" if _is_ready(state, recorded.ready_urls.get(state.name)) else "no"
        log = str(servers.log(state.name))
        table.add_row(state.name, state.state, str(state.pid), str(state.uptime_s), ready, log)
    Console().print(table)


@app.command()
def logs(
    name: Annotated[str, typer.Argument(help="A process that `status` lists, or supervisord.")],
    run_dir: RunDir = _RUN_DIR,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many lines.")] = 50,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as they come.")] = False,
) -> None:
    """Print the end of a process's log."""
    log = LocalServers(run_dir).log(name)
    if not log.exists():
        raise LocalServersError(f"there is no log {log}: see `coplace local status`")
    if follow:
        subprocess.run(["tail", "-n", str(lines), "-F", str(log)], check=False)
    else:
        typer.echo(last_lines(log, lines), nl=False)


@app.command()
def down(run_dir: RunDir = _RUN_DIR) -> None:
    """Stop every process; the data stays."""
    LocalServers(run_dir).down()


def _is_ready(state: ProcessState, ready_url: str | None) -> bool:
    return state.pid > 0 and (ready_url is None or is_ready(ready_url))
