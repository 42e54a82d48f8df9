"""Trees of sysfs as machines with meters have them, which these machines have not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

RANGE_UJ: Final = 262_143_328_850
"""Of a counter of RAPL on many servers."""


def counters(sys: Path, zones: Mapping[str, str]) -> dict[str, Path]:
    """RAPL's zones by name, such as intel-rapl:0: package-0; returns where each counts."""
    found = {}
    for zone, name in zones.items():
        folder = sys / "class" / "powercap" / zone
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
        (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
        (folder / "energy_uj").write_text("0\n")
        found[name] = folder / "energy_uj"
    return found


def supply(sys: Path, power_w: float) -> Path:
    """An ACPI power meter beside a sensor of another kind; returns its reading."""
    for number, name in enumerate(("coretemp", "power_meter")):
        folder = sys / "class" / "hwmon" / f"hwmon{number}"
        folder.mkdir(parents=True)
        (folder / "name").write_text(f"{name}\n")
    file = folder / "power1_average"
    file.write_text(f"{round(power_w * 1e6)}\n")
    return file


def limit_frequency(sys: Path, khz: int) -> None:
    """Two policies of cpufreq with the same limit."""
    for number in range(2):
        folder = sys / "devices/system/cpu/cpufreq" / f"policy{number}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "scaling_max_freq").write_text(f"{khz}\n")
