"""Words of users and of Kubernetes, as facts may carry them."""

from typing import Final

_MOST: Final = 256


def shown(text: object, most: int = _MOST) -> str:
    """Return a text on one line and cut: what is not printable becomes a blank."""
    begin = str(text)[: 4 * most]
    words = "".join(sign if sign.isprintable() else " " for sign in begin)
    return " ".join(words.split())[:most]
