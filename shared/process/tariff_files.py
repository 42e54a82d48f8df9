"""Tariffs of clusters as a file."""

from collections import defaultdict
from pathlib import Path
from typing import Final

from coplace_client.errors import RejectedError, UnusableError
from shared.domain.energy_tariff import Tariff
from shared.process.rows import FileRow, read_rows

# A column of money or of grams of CO2.
PRICE_COLUMNS: Final = ("price_per_kwh", "gco2_per_kwh")


def read_tariffs(path: Path) -> dict[str, Tariff]:
    """Read tariffs by cluster from CSV: cluster, hour, and one of PRICE_COLUMNS.

    The hours of a cluster are 0, 1, 2... from the midnight that times count from; behind the last
    the first follows. Raises OSError when the file cannot be read, UnusableError when it is not so.
    """
    rows = read_rows(path, ("cluster", "hour"))
    columns = [name for name in PRICE_COLUMNS if name in rows[0].values]
    if len(columns) != 1:
        raise UnusableError(f"{path} needs one of the columns {', '.join(PRICE_COLUMNS)}")
    prices: dict[str, dict[int, float]] = defaultdict(dict)
    for row in rows:
        prices[row.text("cluster")][_hour(row)] = row.number_of(columns[0])
    return {cluster: _tariff(path, cluster, hours) for cluster, hours in prices.items()}


def _hour(row: FileRow) -> int:
    hour = row.number_of("hour")
    if not hour.is_integer():
        raise RejectedError("hour", f"must be a whole number, got {hour} in {row.where}")
    return int(hour)


def _tariff(path: Path, cluster: str, hours: dict[int, float]) -> Tariff:
    if sorted(hours) != list(range(len(hours))):
        problem = f"must be 0 to {len(hours) - 1} for {cluster}, each once, in {path}"
        raise RejectedError("hour", problem)
    return Tariff(tuple(hours[hour] for hour in range(len(hours))))
