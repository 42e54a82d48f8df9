#!/usr/bin/env bash
# Packs the chart and signs it with a key of the operator's, which this repository has not; prints where
# the package is. Its provenance lies beside it.
#
# Usage: sign-chart.sh FOLDER KEY KEYRING [PASSPHRASE_FILE]
#   KEYRING is what `gpg --export-secret-keys KEY` writes.
set -euo pipefail

[ $# -ge 3 ] || { echo "Usage: sign-chart.sh FOLDER KEY KEYRING [PASSPHRASE_FILE]" >&2; exit 2; }
here=$(cd "$(dirname "$0")/.." && pwd)
helm=${HELM:-$("$here/deploy/helm.sh")}
mkdir -p "$1"
"$helm" package "$here/helm/coplace" --destination "$1" --sign --key "$2" --keyring "$3" \
    ${4:+--passphrase-file "$4"} >&2
version=$(sed -n 's/^version: //p' "$here/helm/coplace/Chart.yaml")
"$helm" verify "$1/coplace-$version.tgz" --keyring "$3" >&2
echo "$1/coplace-$version.tgz"
