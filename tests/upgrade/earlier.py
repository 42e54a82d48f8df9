"""An earlier commit, as its users would install it."""

import os
import subprocess
import sys
from pathlib import Path

from tests.distributions.environments import ROOT, Environment, build_wheels


def earlier_release(commit: str, scratch: Path) -> Environment:
    """Build the wheels of a commit and install them. Raises CalledProcessError."""
    checkout = scratch / "checkout"
    checkout.mkdir()
    archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", checkout], input=archive.stdout, check=True)
    _generate(checkout)
    wheels = build_wheels(scratch / "wheels", checkout)
    return Environment.of(scratch / "earlier", wheels, "coplace[server,lab]", checkout)


def _generate(checkout: Path) -> None:
    """Make its protobuf code, which no commit has."""
    tools = Path(sys.executable).parent
    subprocess.run(
        ["deploy/generate-proto.sh", "client"],
        cwd=checkout,
        check=True,
        env={**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"},
    )
