"""The file of the key."""

import os
import secrets
from pathlib import Path
from typing import Final

from coplace_client.errors import CannotStartError

_KEY_BYTES: Final = 32


def read_key(file: Path) -> bytes:
    """Return the key of all secrets, and make it where its file is missing: its owner alone can
    read that. Raises CannotStartError."""
    try:
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        pass
    except OSError as error:
        problem = f"the key cannot be written to {file}: {error.strerror}"
        raise CannotStartError(f"{problem}: set COPLACE_WEBHOOKS_KEY_FILE") from None
    else:
        with os.fdopen(descriptor, "w") as fresh:
            fresh.write(f"{secrets.token_hex(_KEY_BYTES)}\n")
            fresh.flush()
            os.fsync(fresh.fileno())
    return _parsed(file)


def _parsed(file: Path) -> bytes:
    try:
        key = bytes.fromhex(file.read_text().strip())
    except (OSError, ValueError) as error:
        raise CannotStartError(f"{file} holds no key: restore it ({error})") from None
    if len(key) < _KEY_BYTES:
        problem = f"{file} must hold at least {_KEY_BYTES} bytes in hexadecimal"
        raise CannotStartError(f"{problem}: restore it, or write `openssl rand -hex 32` to it")
    return key
