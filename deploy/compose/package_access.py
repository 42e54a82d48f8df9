"""How this machine reaches Python packages, handed to an image's build as secrets.

In an argument or a layer they would stay in the image, and an index may have a password.
"""

import ast
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

_AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")
# pip's options and the variables by which uv takes the same.
_UV_NAMES = {
    "index-url": "UV_DEFAULT_INDEX",
    "extra-index-url": "UV_INDEX",
    "trusted-host": "UV_INSECURE_HOST",
}


def build_secrets(folder: Path) -> list[str]:
    """Return arguments of `podman build` that hand over the secrets; their files are put into
    `folder`."""
    variables = folder / "package-env"
    variables.write_text("".join(f"export {name}={value}\n" for name, value in _variables()))
    secrets = {"package-env": variables}
    authorities = Path(os.environ.get("SSL_CERT_FILE", _AUTHORITIES))
    if authorities.is_file():
        secrets["package-ca"] = authorities
    return [f"--secret=id={name},src={path}" for name, path in secrets.items()]


def _variables() -> Iterator[tuple[str, str]]:
    """pip's index settings, from its files and the environment, for pip and for uv."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True
    )
    for line in listed.stdout.splitlines():
        name, _, literal = line.partition("=")
        option = name.rpartition(".")[2]
        if option in _UV_NAMES:
            value = shlex.quote(ast.literal_eval(literal))
            yield f"PIP_{option.upper().replace('-', '_')}", value
            yield _UV_NAMES[option], value
