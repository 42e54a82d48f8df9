"""What people elsewhere typed, as text that every table, log and key can hold."""

from typing import Final

# As long as a text of an event may be, characters.
MOST_PRINTABLE: Final = 256
_IN_PLACE_OF_OTHERS: Final = "_"


def printable(text: str, most: int = MOST_PRINTABLE) -> str:
    """Return a text cut to `most` characters, each of which is printable: others are replaced."""
    cut = text[:most]
    if cut.isprintable():
        return cut
    return "".join(sign if sign.isprintable() else _IN_PLACE_OF_OTHERS for sign in cut)
