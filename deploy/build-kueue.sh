#!/usr/bin/env bash
# Builds Kueue once, into the folder of what was fetched or built before; prints where it is: the program `kueue`, and its
# sources, of which the kinds and webhooks are installed. It reads the certificate of its metrics where it runs.
#
# Usage: build-kueue.sh VERSION
set -euo pipefail

folder=${XDG_CACHE_HOME:-$HOME/.cache}/coplace/kueue-$1

build() {
    mkdir -p "$folder/download"
    cd "$folder/download"
    printf 'module download\ngo 1.24.0\n' >go.mod
    fetched=$(go mod download -json "sigs.k8s.io/kueue@$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    rm -rf "$folder/source"
    cp -r "$fetched" "$folder/source"
    chmod -R u+w "$folder/source"
    cd "$folder/source"
    sed -i 's,"/etc/kueue/metrics/certs","certs",' cmd/kueue/main.go
    go build -o "$folder/kueue" ./cmd/kueue
}

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [ ! -x "$folder/kueue" ]; then
    command -v go >/dev/null || { echo "Building Kueue needs Go 1.26 or newer: https://go.dev/dl" >&2; exit 1; }
    (build "$@") >&2
fi
echo "$folder"
