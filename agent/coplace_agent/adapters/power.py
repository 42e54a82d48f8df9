"""What a node draws: its power supply's meter, or the counters of its processors and memory."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

# Of the kernel's driver of ACPI power meters (hwmon).
_SUPPLY: Final = "power_meter"
# Zones of RAPL: one of the whole platform; else packages, of which cores are a part, and memory.
_PLATFORM: Final = "psys"
_PARTS: Final = ("package-", "dram")


class NodeMeter(Protocol):
    """The energy that a node draws."""

    def energy_j(self, now_s: float) -> float:
        """Return the energy since it was made; `now_s` is of a clock that never steps. Raises
        OSError, ValueError."""
        ...


class NoMeterError(ValueError):
    """The power of this node cannot be read; the message says why."""


class SupplyMeter:
    """An ACPI power meter, which shows the power of the whole node."""

    def __init__(self, file: Path, now_s: float) -> None:
        self._file = file
        self._at_s = now_s
        self._energy_j = 0.0

    def energy_j(self, now_s: float) -> float:
        """Add the energy since the last call, at the power that it shows now."""
        power_w = int(self._file.read_text()) / 1e6
        self._energy_j += power_w * (now_s - self._at_s)
        self._at_s = now_s
        return self._energy_j


class EnergyCounters:
    """RAPL's counters of energy, and what the rest of the node draws besides.

    They begin anew at their range: a counter of 262 kJ after twenty minutes of 200 W, so that one
    that is asked more often than that loses nothing.
    """

    def __init__(self, zones: Sequence[Path], rest_w: float, now_s: float) -> None:
        self._zones = [(zone, _number(zone / "max_energy_range_uj")) for zone in zones]
        self._last_uj = [_number(zone / "energy_uj") for zone in zones]
        self._rest_w = rest_w
        self._at_s = now_s
        self._energy_j = 0.0

    def energy_j(self, now_s: float) -> float:
        """Return the energy of all zones together, and of the rest by time."""
        found = [_number(zone / "energy_uj") for zone, _ in self._zones]
        for (_, range_uj), last_uj, now_uj in zip(self._zones, self._last_uj, found, strict=True):
            drawn_uj = now_uj - last_uj if now_uj >= last_uj else now_uj + range_uj - last_uj
            self._energy_j += drawn_uj / 1e6
        self._energy_j += self._rest_w * (now_s - self._at_s)
        self._last_uj, self._at_s = found, now_s
        return self._energy_j


def node_meter(sys: Path, rest_w: float, now_s: float) -> NodeMeter:
    """Return the meter that shows most of the node below a sysfs. `rest_w` is what RAPL does not
    see.

    Raises NoMeterError where there is none, or it cannot be read.
    """
    try:
        supply = _supply(sys / "class" / "hwmon")
        meter = SupplyMeter(supply, now_s) if supply else _counters(sys, rest_w, now_s)
        meter.energy_j(now_s)
    except (OSError, ValueError) as error:
        raise NoMeterError(str(error)) from error
    return meter


def _supply(folder: Path) -> Path | None:
    for name in sorted(folder.glob("*/name")):
        if name.read_text().strip() == _SUPPLY:
            return name.with_name("power1_average")
    return None


def _counters(sys: Path, rest_w: float, now_s: float) -> EnergyCounters:
    folder = sys / "class" / "powercap"
    names = {file.parent: file.read_text().strip() for file in folder.glob("intel-rapl:*/name")}
    platform = sorted(zone for zone, name in names.items() if name == _PLATFORM)
    parts = sorted(zone for zone, name in names.items() if name.startswith(_PARTS))
    if not (platform or parts):
        raise NoMeterError(f"{sys} has neither an ACPI power meter nor counters of energy")
    return EnergyCounters(platform or parts, rest_w, now_s)


def _number(file: Path) -> int:
    return int(file.read_text())
