"""What a certificate says of who shows it."""

import ssl
from pathlib import Path
from typing import Any

from coplace_client.errors import UnusableError


def common_name(path: Path) -> str:
    """Return the common name of the first certificate of a PEM file; empty where it has none.

    Only to show people who they are: whether to believe it the other side decides. Raises
    UnusableError for what is no certificate.
    """
    # The standard library reads certificates of files by this alone.
    decode: Any = ssl._ssl._test_decode_cert  # type: ignore[attr-defined]
    try:
        subject = decode(str(path))["subject"]
    except (ssl.SSLError, OSError) as error:
        raise UnusableError(f"{path} is not a certificate in PEM: {error}") from error
    names = [value for part in subject for name, value in part if name == "commonName"]
    return str(names[0]) if names else ""
