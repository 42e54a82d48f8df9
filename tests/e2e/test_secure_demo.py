"""A secure run comes to the same files as one in a process, and so it does although processes and
servers are killed."""

from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from cli.demo.options import DemoOptions
from cli.demo.parity import first_difference
from cli.demo.servers import new_namespace
from cli.security import Security
from deploy.local.servers import LocalServers
from tests.chaos.kills.blows import on_each, run

_KILLED: Final = ("ingest", "placement", "pricing", "accounts", "kafka", "redis")


@pytest.mark.long
@pytest.mark.usefixtures("own_servers")
def test_a_secure_run_that_is_killed_at_comes_to_the_same_files(
    chaos_seed: int, undisturbed: DemoOptions, tmp_path: Path, out: Path
) -> None:
    print(f"COPLACE_CHAOS_SEED={chaos_seed} draws when they are killed")
    security = Security(tmp_path, new_namespace("secure"))
    security.prepare()
    options = replace(undisturbed, out=out, secure=True)
    blows = on_each(_KILLED, options.jobs, 1, chaos_seed)
    with LocalServers(tmp_path / "run", secure=security.redis) as servers:
        run(options, servers, blows, print, security)
        log = servers.log("kafka").read_text()
    assert first_difference(undisturbed.out, out) is None
    assert "is Denied" not in log
