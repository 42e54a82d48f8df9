"""The examples of a resource manager, built as their readers build them."""

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from deploy.local.prerequisites import require_command

_REPOSITORY: Final = Path(__file__).parents[2]
_FOLDER: Final = Path("examples")
EXAMPLES: Final = _REPOSITORY / _FOLDER
BUILDS: Final[Mapping[str, Sequence[Sequence[str]]]] = {
    "python": [],
    "go": [["buf", "generate", "../.."], ["go", "build", "-o", "manager", "."]],
    "javascript": [["npm", "ci", "--no-audit", "--no-fund"]],
}
_STARTS: Final[Mapping[str, Sequence[str]]] = {
    "python": [sys.executable, str(EXAMPLES / "resource_manager.py")],
    "go": ["{folder}/manager"],
    "javascript": ["node", "{folder}/resource_manager.js"],
}
LANGUAGES: Final = (*BUILDS,)


def built(language: str, folder: Path) -> Sequence[str]:
    """Return the command that starts an example, which is built in a copy.
    Raises PrerequisiteError and CalledProcessError."""
    if not BUILDS[language]:
        return _STARTS[language]
    _require(language)
    place = folder / _FOLDER / language
    ignored = shutil.ignore_patterns("coplace", "node_modules", "manager")
    shutil.copytree(EXAMPLES / language, place, ignore=ignored)
    shutil.copy(_REPOSITORY / "buf.yaml", folder)
    (folder / "proto").symlink_to(_REPOSITORY / "proto")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for command in BUILDS[language]:
        subprocess.run(command, cwd=place, env={**os.environ, "PATH": path}, check=True)
    return [word.format(folder=place) for word in _STARTS[language]]


def _require(language: str) -> None:
    if language == "go":
        require_command(
            "go", "The example in Go (1.24 or newer)", "golang-go, or https://go.dev/dl"
        )
    else:
        require_command("npm", "The example in JavaScript", "nodejs npm")
