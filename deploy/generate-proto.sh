#!/usr/bin/env bash
# Builds the protobuf, gRPC and type stub code of proto/ as the package `coplace` in a folder,
# replacing it as a whole.
#
# Usage: generate-proto.sh FOLDER [--without-stubs], with the environment's protoc plugins on the PATH
set -euo pipefail

target=$1/coplace
new="$(mktemp -d "$1/generated.XXXXXX")"
trap 'rm -rf "$new"' EXIT
chmod 755 "$new"
mkdir -p "$new/coplace/v1"
stubs=(--mypy_out="quiet:$new" --mypy_grpc_out="quiet:$new")
[ "${2:-}" != --without-stubs ] || stubs=()
touch "$new/coplace/__init__.py" "$new/coplace/py.typed" "$new/coplace/v1/__init__.py"
find proto -name '*.proto' -print0 | sort -z | xargs -0 -r \
    python -m grpc_tools.protoc -I proto \
    --python_out="$new" --grpc_python_out="$new" "${stubs[@]}"
# Swapped only when complete, so that a process that runs meanwhile never sees half of it.
rm -rf "$target"
mv "$new/coplace" "$target"
