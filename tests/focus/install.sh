#!/usr/bin/env bash
# Installs the validator of FOCUS into an environment of its own: it needs Python 3.12 and older
# libraries than Coplace has.
#
# Usage: install.sh FOLDER, with uv on the PATH
set -euo pipefail

folder=$1
lock="$(dirname "$0")/validator.lock"
python=$(command -v python3.12 || true)
# A pyenv that has it answers under this name, whether or not it is the version that is chosen.
if [ -z "$python" ] || ! "$python" -c '' 2>/dev/null; then
    versions=$(pyenv whence python3.12 2>/dev/null || true)
    [ -n "$versions" ] || { echo "Python 3.12 is needed by the validator of FOCUS." >&2; exit 1; }
    python="$(pyenv prefix "${versions##*$'\n'}")/bin/python3.12"
fi
rm -rf "$folder"
uv venv --quiet --python "$python" "$folder"
uv pip install --quiet --require-hashes --python "$folder/bin/python" -r "$lock"
