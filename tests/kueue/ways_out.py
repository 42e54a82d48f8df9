"""Coplace is silent, is upgraded and is uninstalled while Workloads come."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import yaml

from deploy.local.program import Program
from deploy.local.servers import LocalServers
from lab.benchmarks.kubernetes.cluster import ROOT
from tests.kueue.rounds import Player, Round

_JOBS: Final = 6
_RUN_S: Final = 5.0
_WITHIN_S: Final = 180.0
# A manager may hear so late that a copy has ended; until then its end is in one process alone.
HEARD_S: Final = 10.0
SILENT_S: Final = 30


async def silence(player: Player, servers: LocalServers, own: Sequence[Program]) -> Round:
    """The adapter is stopped; a second process lets Workloads go. Then it is there again."""
    adapter = next(each for each in own if each.name == "kueue")
    watcher = Program(
        "kueue-silence",
        [sys.executable, "-m", "services.kueue.silence"],
        {
            **adapter.env,
            "COPLACE_HTTP_PORT": "0",
            "COPLACE_KUEUE_SILENCE_AFTER_S": str(SILENT_S),
        },
        None,
    )
    await asyncio.to_thread(servers.start, [watcher])
    await asyncio.to_thread(servers.remove, [adapter])
    found, began_s = Round("silence"), time.time()
    await player.submit(found, "silence0", _JOBS, 2.0, _RUN_S, 1)
    while not all(name in player.admissions.first_s for name in found.submitted):
        if time.time() - began_s > _WITHIN_S:
            found.problems.append("not all were admitted while Coplace was silent")
            break
        await asyncio.sleep(0.2)
    admitted = [player.admissions.first_s.get(name, 0.0) - began_s for name in found.submitted]
    print(f"silence: admitted without Coplace after {min(admitted):.1f} s", flush=True)
    await asyncio.to_thread(servers.start, [adapter])
    await player.ended(found, _WITHIN_S)
    player.judge(found)
    await asyncio.to_thread(servers.remove, [watcher])
    return found


async def upgrade(
    player: Player,
    servers: LocalServers,
    own: Sequence[Program],
    commit: str,
    *,
    are_copies: bool = False,
) -> Round:
    """The adapter of an earlier commit gives way to this one while Workloads wait and run, or
    copies of them, which MultiKueue removes as they end."""
    adapter = next(each for each in own if each.name == "kueue")
    folder = Path(adapter.env["COPLACE_KUEUE_CLUSTERS_FILE"]).parent / "earlier"
    await asyncio.to_thread(_checked_out, commit, folder)
    # Its own modules go before those of this commit; libraries and messages are the same.
    words = f"import sys, runpy; sys.path.insert(0, {str(folder)!r})"
    run = "runpy.run_module('services.kueue', run_name='__main__', alter_sys=True)"
    earlier = replace(adapter, argv=[sys.executable, "-c", f"{words}; {run}"])
    await asyncio.to_thread(servers.remove, [adapter])
    await asyncio.to_thread(servers.start, [earlier])
    found = Round("upgrade")
    coming = asyncio.create_task(player.submit(found, "upgrade0", 4 * _JOBS, 2.0, _RUN_S, 4))
    await asyncio.sleep(_JOBS)
    before, away_s = len(player.kubelets.ready.keys() & found.submitted.keys()), time.time()
    await asyncio.to_thread(servers.remove, [earlier])
    await asyncio.to_thread(servers.start, [adapter])
    if are_copies:
        found.away.append((away_s - HEARD_S, time.time()))
    print(f"upgrade: after {before} of {4 * _JOBS} Workloads had begun", flush=True)
    await coming
    await player.ended(found, _WITHIN_S)
    player.judge(found)
    return found


def _checked_out(commit: str, folder: Path) -> None:
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)


async def release(
    player: Player, servers: LocalServers, own: Sequence[Program], dispatcher: str = ""
) -> Round:
    """What waits for a Coplace that is not there goes back to Kueue by one command, and so does
    what comes. A manager has its dispatcher set back before."""
    adapter = next(each for each in own if each.name == "kueue")
    await asyncio.to_thread(servers.remove, [adapter])
    found = Round("release")
    await player.submit(found, "release0", _JOBS, 2.0, _RUN_S, 2)
    if dispatcher:
        await player.cluster.kueue_anew(dispatcher)
    done = await asyncio.to_thread(_released, adapter)
    print(f"release: {done}", flush=True)
    await player.submit(found, "release1", _JOBS, 2.0, _RUN_S, 3)
    while not all(name in player.admissions.finished for name in found.submitted):
        await asyncio.sleep(0.2)
        if time.time() - found.began_s > _WITHIN_S:
            found.problems.append("not all have ended without Coplace")
            break
    player.judge(found)
    await asyncio.to_thread(servers.start, [adapter])
    await player.ended(found, _WITHIN_S)
    return found


def _released(adapter: Program) -> str:
    """By an operator, whose kubeconfigs may change queues."""
    file = Path(adapter.env["COPLACE_KUEUE_CLUSTERS_FILE"])
    there = yaml.safe_load(file.read_text())
    for each in (*there["clusters"], *there.get("managers", ())):
        each["kubeconfig"] = _operators(Path(each["kubeconfig"]))
    own = file.with_name("operators-clusters.yaml")
    own.write_text(yaml.safe_dump(there))
    words = ["kueue", "release", "--all", "--site", "north", "--clusters", str(own)]
    done = subprocess.run(
        [str(Path(sys.executable).with_name("coplace")), *words],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return ", ".join((done.stdout + done.stderr).split("\n")).strip(", ")


def _operators(kubeconfig: Path) -> str:
    """Return where an operator's kubeconfig of the same API server is."""
    told = yaml.safe_load(kubeconfig.read_text())
    told["users"][0]["user"]["token"] = "admin"
    own = kubeconfig.with_name(f"operators-{kubeconfig.name}")
    own.write_text(yaml.safe_dump(told))
    return str(own)
