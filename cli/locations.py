"""Variables that say where archive and history are, as their processes read them."""

from typing import Final

ARCHIVE: Final = "COPLACE_ARCHIVE_WHERE"
HISTORY: Final = "COPLACE_HISTORY_DATABASE"
