"""Names of the models that are published in versions: a version is named by its model and by the
number of the newest job or interval that it was grown of."""

from typing import Final

TREES: Final = "power-trees"
PAIR_TREES: Final = "pair-trees"
