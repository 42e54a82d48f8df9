"""Every program that is to be kept running, by what the distributions hold."""

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from cli.stages import PLANNER, SERVICES, stages_of
from shared.catalogue.topics import ROUND_ENDED, load_topics
from shared.process.environment import EnvironmentSettings
from shared.process.settings import Settings
from tests.starts.declared import Value, Values, settings_classes, values_of, values_of_agent

_ROOT: Final = Path(__file__).parents[2]
_AGENT: Final = "coplace_agent"
# Where the packages of a name lie, and those of them that hold programs to keep running.
_PACKAGES: Final = {"services": _ROOT, _AGENT: _ROOT / "agent"}
# They play resource managers and nodes: tests/e2e starts the one, tests/integration the other.
ONE_SHOT: Final = frozenset({"lab.emulator", "lab.emulator.sample"})
# What these wait for where nothing else runs: until then they have come as far as they can.
WAITING: Final = {
    "services.kubernetes": "waiting for placement",
    "services.kueue": "waiting for placement",
    "services.slurm": "waiting for Slurm",
}
# The entry points that run stages, with the services that these are of.
WITH_STAGES: Final = {f"services.{name}": name for name in (*SERVICES, PLANNER)}
# A tenth of the time that ast takes, in each process that collects tests.
_IMPORT: Final = re.compile(
    r"^[ \t]*(?:from (?P<module>[\w.]+) )?import (?:\((?P<within>[^)]*)\)|(?P<behind>[^\n(#]+))",
    re.MULTILINE,
)


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """A program, and the settings that it reads."""

    module: str
    values: Values

    @property
    def words(self) -> list[str]:
        """What follows `python`."""
        return ["-m", self.module, *(["run"] if self.module == _AGENT else [])]

    @property
    def every_value(self) -> list[Value]:
        """All values of all its settings."""
        return [value for values in self.values.values() for value in values]

    @property
    def told(self) -> list[str]:
        """The topics in which a first round ends for it; none that it writes itself."""
        service = WITH_STAGES.get(self.module)
        if service is None:
            return [name for name, spec in load_topics().items() if ROUND_ENDED in spec.messages]
        stages = stages_of(service, Settings())
        written = {topic for stage in stages for topic in stage.outputs}
        return sorted({topic for stage in stages for topic in stage.inputs} - written)


def modules_with_main() -> set[str]:
    """What `python -m` runs of the distributions: of the laboratory what is published."""
    excluded = tomllib.loads((_ROOT / "pyproject.toml").read_text())
    left_out = excluded["tool"]["setuptools"]["packages"]["find"]["exclude"]
    folders = [*_PACKAGES.items(), ("lab", _ROOT), ("cli", _ROOT), ("deploy", _ROOT)]
    found = {
        ".".join(file.relative_to(base).parts[:-1])
        for package, base in folders
        for file in (base / package).rglob("__main__.py")
    }
    return {each for each in found if not any(each.startswith(x.strip("*")) for x in left_out)}


def console_scripts() -> dict[str, str]:
    """The commands that the distributions install, with what they call."""
    found: dict[str, str] = {}
    for file in (_ROOT / "pyproject.toml", *_ROOT.glob("*/pyproject.toml")):
        found |= tomllib.loads(file.read_text())["project"].get("scripts", {})
    return found


def entry_points() -> list[EntryPoint]:
    """Those that are kept running, by module."""
    classes = settings_classes()
    found = sorted(modules_with_main() - ONE_SHOT)
    return [EntryPoint(module, _values(module, classes)) for module in found]


def _values(module: str, classes: Iterable[type[EnvironmentSettings]]) -> Values:
    if module == _AGENT:
        return values_of_agent()
    read = _imported(f"{module}.__main__")
    values: dict[str, Sequence[Value]] = {}
    for each in classes:
        if each.__module__ in read:
            values |= values_of(each)
    return values


def _imported(module: str) -> set[str]:
    """The modules of this repository that a module imports, and they in turn."""
    seen, left = set[str](), [module]
    while left:
        name = left.pop()
        if name not in seen:
            seen.add(name)
            left += _imports(name)
    return seen


@cache
def _imports(module: str) -> frozenset[str]:
    file = _file(module)
    if file is None:
        return frozenset()
    found = set[str]()
    for line in _IMPORT.finditer(file.read_text()):
        listed = line["within"] or line["behind"]
        names = [each.split()[0] for each in listed.split(",") if each.strip()]
        module = line["module"]
        found |= {module, *(f"{module}.{each}" for each in names)} if module else set(names)
    return frozenset(name for name in found if _file(name))


def _file(module: str) -> Path | None:
    if module.partition(".")[0] not in ("services", "shared"):
        return None
    path = _ROOT.joinpath(*module.split("."))
    file = path.with_suffix(".py")
    return file if file.is_file() else None
