"""What is counted of a run: by `perf stat` where the machine counts, and by the kernel anyway."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from resource import struct_rusage
from typing import Final

import yaml
from pydantic import BaseModel, ConfigDict, TypeAdapter

_SCHEMA: Final = Path(__file__).with_name("counters.yaml")
# perf stat -x: value, unit, event and more.
_SEPARATOR: Final = ";"
_EVENT_FIELD: Final = 2


class Counter(BaseModel):
    """One feature of a program alone."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    perf: str = ""
    usage: str = ""
    whole: bool = False

    def as_feature(self, value: float, run_s: float) -> float:
        """Return a value as a feature: by second, or of the whole run."""
        return value if self.whole else value / run_s


def schema() -> Sequence[Counter]:
    """Read the counters from `counters.yaml`."""
    return TypeAdapter(list[Counter]).validate_python(yaml.safe_load(_SCHEMA.read_text()))


def countable(counters: Sequence[Counter], perf: str = "perf") -> tuple[Sequence[str], str]:
    """Return the events of `perf stat` that this machine counts, and why not all are, empty where
    they are."""
    events = [each.perf for each in counters if each.perf]
    program = shutil.which(perf)
    if program is None:
        return (), "perf is not installed: the kernel's own counters alone"
    tried = subprocess.run(
        [*perf_command(events, perf=program), "true"], capture_output=True, text=True, check=False
    )
    found = [event for event in events if event in parse_counts(tried.stderr)]
    lacking = [event for event in events if event not in found]
    return found, f"perf counts no {', '.join(lacking)} here" if lacking else ""


def perf_command(events: Sequence[str], into: Path | None = None, perf: str = "perf") -> list[str]:
    """Return what to put before a command so that perf counts it."""
    output = ["--output", str(into)] if into else []
    return [perf, "stat", "-x", _SEPARATOR, *output, "-e", ",".join(events), "--"]


def parse_counts(text: str) -> Mapping[str, float]:
    """Parse what `perf stat -x` printed, by event; without what it could not count, and without the
    modifiers that it adds (instructions:u)."""
    found = {}
    for line in text.splitlines():
        fields = line.split(_SEPARATOR)
        if len(fields) > _EVENT_FIELD:
            try:
                found[fields[_EVENT_FIELD].split(":")[0]] = float(fields[0])
            except ValueError:  # <not supported>, <not counted>
                continue
    return found


def features(
    counters: Sequence[Counter], run_s: float, usage: struct_rusage, events: Mapping[str, float]
) -> Mapping[str, float]:
    """Return what was counted of one run, by name."""
    found = {}
    for each in counters:
        value = events.get(each.perf) if each.perf else getattr(usage, each.usage)
        if value is not None:
            found[each.name] = each.as_feature(float(value), run_s)
    return found
