"""Names of the published EAR coefficients and signatures of two nodes.

M. D'Amico and J. Corbalan, "Energy models and application data for two Intel CPUs", IEEE DataPort,
10.21227/e02v-y602: `{module}_coefficients.csv` and `apps.csv`, whose TPI is in a unit of their own.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

TPI_SCALE: Final = "eamc-2020"
NODE_MODEL_OF_MODULE: Final[Mapping[str, str]] = MappingProxyType(
    {"normal": "platinum-8168", "normal2": "gold-6254"}
)
