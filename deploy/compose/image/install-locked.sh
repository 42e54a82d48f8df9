#!/usr/bin/env bash
# Installs into a virtual environment what is asked for, at the versions of requirements.lock and
# with its hashes checked. Runs in the image's build.
#
# Usage: install-locked.sh FOLDER UV_PIP_INSTALL_ARGUMENT...
#        install-locked.sh FOLDER --needs EXTRA    what pyproject.toml asks for, with an extra
set -euo pipefail

venv=$1
shift
uv=/opt/build/uv
# How a builder behind a mirror or a proxy reaches packages; as secrets, so that no layer has it.
if [ -e /run/secrets/package-env ]; then
    source /run/secrets/package-env
fi
if [ -e /run/secrets/package-ca ]; then
    export PIP_CERT=/run/secrets/package-ca SSL_CERT_FILE=/run/secrets/package-ca
fi
# uv because, unlike pip, it checks hashes when only a part of the lock is installed.
if [ ! -e "$uv" ]; then
    python3 -m venv "$uv"
    sed -n '/^uv==/,/[^\\]$/p' requirements.lock >/tmp/uv.lock
    "$uv/bin/pip" install --quiet --no-cache-dir --require-hashes -r /tmp/uv.lock
fi
if [ "$1" = --needs ]; then
    # Our own client is in the sources: it comes from no index.
    "$uv/bin/uv" pip compile --quiet --no-header --no-annotate --no-emit-package coplace \
        --no-emit-package coplace-client ${2:+--extra "$2"} --constraints requirements.lock \
        --output-file /tmp/needed.txt pyproject.toml
    set -- --requirements /tmp/needed.txt
fi
[ -e "$venv" ] || python3 -m venv --without-pip "$venv"
"$uv/bin/uv" pip install --quiet --no-cache --compile-bytecode --python "$venv/bin/python" \
    --constraints requirements.lock --build-constraints requirements.lock "$@"
