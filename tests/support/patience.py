"""For how long tests await what comes in seconds on an idle machine."""

from typing import Final

PATIENCE_S: Final = 180.0
