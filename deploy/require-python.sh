#!/usr/bin/env bash
# Makes sure that a Python of the right age can create a virtual environment.
#
# Usage: require-python.sh PYTHON
set -euo pipefail

python=$1
install="$(dirname "$0")/install-packages.sh"
command -v "$python" >/dev/null || "$install" python3 python3-venv
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    echo "$python is $("$python" --version 2>&1), older than the 3.11 that Coplace needs." >&2
    echo "Name a newer one: make PYTHON=python3.12 ..." >&2
    exit 1
fi
# Debian ships ensurepip, and so a working venv module, in a package of its own.
"$python" -c 'import ensurepip' 2>/dev/null || "$install" python3-venv
