"""Installs a hub and two sites on a real Kubernetes with real pods, plays jobs through them over
an upgrade and a rollback, and compares their charges with the embedded run's: `make e2e-k8s`."""

import argparse
import fcntl
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from deploy.cache import cache_dir
from deploy.compose import images
from deploy.compose.podman import Podman
from tests.cluster.commands import coplace, printed
from tests.cluster.node import Cluster, ClusterError, running
from tests.cluster.releases import RELEASES, SERVERS, namespaces
from tests.cluster.story import Story

_SANDBOX: Final = "localhost/sandbox:latest"


def _prepare(cluster: Cluster, out: Path) -> None:
    """Namespaces, and volumes of the servers."""
    out.chmod(0o777)
    cluster.apply(*namespaces())
    for server in SERVERS:
        folder = cluster.folder / f"volume-{server.release}-{server.name}"
        folder.mkdir()
        folder.chmod(0o777)
        cluster.apply(server.volume(folder))

    def have_accounts() -> bool:
        accounts = cluster.get("serviceaccounts", "--all-namespaces")
        metas = [account["metadata"] for account in accounts]
        return set(RELEASES) <= {meta["namespace"] for meta in metas if meta["name"] == "default"}

    cluster.wait("the namespaces have their accounts", have_accounts)


def _images(folder: Path, *, built: bool) -> Path:
    """An archive of the images of the releases, built anew where their source changed."""
    run_dir = Path(os.environ.get("XDG_RUNTIME_DIR") or "/run") / "coplace"
    podman = Podman(cache_dir() / "containers", run_dir)
    with (cache_dir() / "compose-check.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built:
            images.provide_images(podman, print)
        sleeps = f'FROM {images.DEBIAN}\nENTRYPOINT ["sleep", "infinity"]\n'
        (folder / "Dockerfile").write_text(sleeps)
        podman.call("build", "--pull=never", f"--tag={_SANDBOX}", str(folder))
        archive = folder / "images.tar"
        save = ("save", "--format=docker-archive", "--multi-image-archive", f"--output={archive}")
        podman.call(*save, *images.COPLACE.values(), images.KAFKA, images.REDIS, _SANDBOX)
    return archive


def main() -> None:
    """Exit with a message unless everything came as it should."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("run/cluster"))
    parser.add_argument("--built", action="store_true", help="take the image that is there")
    asked = parser.parse_args()
    out = asked.out.absolute()
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    try:
        rows = _play(out, asked.jobs, asked.seed, built=asked.built)
    except ClusterError as error:
        sys.exit(f"e2e-k8s: {error}")
    title = f"{asked.jobs} jobs, seed {asked.seed}, a hub and its sites on Kubernetes"
    table = Table(title=title, show_header=False)
    for row in rows:
        table.add_row(*row)
    Console(width=110).print(table)


def _play(out: Path, jobs: int, seed: int, *, built: bool) -> list[tuple[str, str]]:
    programs = Path(printed("deploy/build-kubernetes.sh", "v1.34.1"))
    tools = Path(printed("deploy/helm.sh")).parent
    coplace("demo", f"--seed={seed}", f"--jobs={jobs}", f"--out={out / 'embedded'}")
    archive = _images(out, built=built)
    with (
        tempfile.TemporaryDirectory(prefix="coplace-cluster-") as scratch,
        running(Cluster(Path(scratch) / "node", programs, tools)) as cluster,
    ):
        cluster.load(archive)
        archive.unlink()
        _prepare(cluster, out)
        story = Story(cluster, out, jobs, seed)
        story.play()
        return story.rows


if __name__ == "__main__":
    main()
