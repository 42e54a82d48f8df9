#!/usr/bin/env bash
# Makes sure that the commands which a target needs are there.
#
# Usage: require-commands.sh COMMAND:DEBIAN_PACKAGE...
set -euo pipefail

missing=()
for need in "$@"; do
    command -v "${need%%:*}" >/dev/null || missing+=("${need##*:}")
done
[ ${#missing[@]} -eq 0 ] || "$(dirname "$0")/install-packages.sh" "${missing[@]}"
