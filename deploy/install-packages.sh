#!/usr/bin/env bash
# Installs Debian packages when it is root on Debian; elsewhere prints the one line to run.
#
# Usage: install-packages.sh DEBIAN_PACKAGE...
set -euo pipefail

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "Something is missing. On Debian run this line, then try again:" >&2
    echo "    sudo apt-get install -y $*" >&2
    exit 1
fi
echo "Installing $*"
apt-get update -qq
# RUNLEVEL=1: the project starts its own servers, so no system service has to start.
RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
