#!/usr/bin/env bash
# Builds helm once, into the folder of what was fetched or built before; prints where it is.
#
# Usage: build-helm.sh VERSION
set -euo pipefail

folder=${XDG_CACHE_HOME:-$HOME/.cache}/coplace/helm-$1
if [ ! -x "$folder/helm" ]; then
    command -v go >/dev/null || { echo "Building helm needs Go 1.24 or newer: https://go.dev/dl" >&2; exit 1; }
    GOBIN=$folder go install "helm.sh/helm/v3/cmd/helm@$1" >&2
fi
echo "$folder/helm"
