"""Pictures as files, the same bytes for the same figure."""

from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from coplace_client.files import write_whole

_DOTS_PER_INCH: Final = 110


def save_png(figure: Figure, path: Path) -> None:
    """Write a figure as PNG, without the version of what drew it."""
    with write_whole(path) as fresh:
        figure.savefig(fresh, dpi=_DOTS_PER_INCH, metadata={"Software": None})
