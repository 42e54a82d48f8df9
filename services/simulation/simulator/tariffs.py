"""Tariffs of clusters as a file."""

import csv
from collections import defaultdict
from pathlib import Path
from typing import Final

from shared.policies.tariff import Tariff

# A column of money or of grams of CO2.
PRICE_COLUMNS: Final = ("price_per_kwh", "gco2_per_kwh")


def read_tariffs(path: Path) -> dict[str, Tariff]:
    """Tariffs by cluster from CSV: cluster, hour, and one of PRICE_COLUMNS.

    The hours of a cluster are 0, 1, 2... from the midnight that times count from; behind the last
    the first follows. Raises OSError when the file cannot be read, ValueError when it is not so.
    """
    prices: dict[str, dict[int, float]] = defaultdict(dict)
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.DictReader(file)
        names = [name for name in PRICE_COLUMNS if name in (rows.fieldnames or ())]
        if len(names) != 1 or not {"cluster", "hour"} <= set(rows.fieldnames or ()):
            wanted = " or ".join(PRICE_COLUMNS)
            raise ValueError(f"{path} needs the columns cluster, hour and {wanted}")
        for row in rows:
            try:
                prices[row["cluster"]][int(row["hour"])] = float(row[names[0]])
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path} line {rows.line_num}: {error}") from error
    return {cluster: _tariff(path, cluster, hours) for cluster, hours in prices.items()}


def _tariff(path: Path, cluster: str, hours: dict[int, float]) -> Tariff:
    if sorted(hours) != list(range(len(hours))):
        raise ValueError(f"{path}: the hours of {cluster} must be 0 to {len(hours) - 1}, each once")
    return Tariff(tuple(hours[hour] for hour in range(len(hours))))
