"""Programs of the project on this machine."""

import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.cluster.node import ClusterError

_ROOT: Final = Path(__file__).parents[2]


def coplace(*arguments: str) -> str:
    """Run the command line. Raises ClusterError."""
    command = [str(Path(sys.executable).with_name("coplace")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ClusterError(f"coplace {' '.join(arguments)}:\n{done.stdout}{done.stderr}")
    return done.stdout


def printed(*command: str) -> str:
    """What a script of the tree prints. Raises CalledProcessError."""
    program = [str(_ROOT / command[0]), *command[1:]]
    return subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
