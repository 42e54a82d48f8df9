#!/usr/bin/env bash
# Makes a root with Debian 13's Slurm 24.11, or the newest of Debian's archive, its jobcomp/kafka plugin,
# slurmdbd and MariaDB, once, into the folder of what was fetched or built before; prints where it is.
# Debian 12's Slurm has no such plugin.
#
# Usage: build-slurm.sh [24.11|newest]
set -euo pipefail

release=${1:-24.11}
case $release in
24.11) suite=trixie ;;
newest) suite=sid ;;
*) echo "$0: 24.11 or newest, not $release" >&2; exit 2 ;;
esac
folder=${XDG_CACHE_HOME:-$HOME/.cache}/coplace/slurm-$release
packages=(slurmctld slurmd slurm-client slurmdbd mariadb-server slurm-wlm-kafka-plugin)

build() {
    rm -rf "$folder/root"
    # Its mounts go away with its namespace, even when it is killed.
    unshare --mount debootstrap --variant=minbase $suite "$folder/root"
    # The host's ways to the packages: certificates, names and settings of apt.
    cp -r /etc/ssl/certs "$folder/root/etc/ssl/"
    cp -r /etc/apt/apt.conf.d "$folder/root/etc/apt/"
    cp -L /etc/resolv.conf "$folder/root/etc/"
    # Without it slurmctld and its commands wait for a resolver.
    echo '127.0.0.1 localhost' >"$folder/root/etc/hosts"
    chroot "$folder/root" env DEBIAN_FRONTEND=noninteractive sh -c \
        "apt-get update -q && apt-get install -qy --no-install-recommends ${packages[*]}"
    touch "$folder/made-with-accounts"
}

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [ ! -e "$folder/made-with-accounts" ]; then
    command -v debootstrap >/dev/null || { echo "Debian's debootstrap is needed." >&2; exit 1; }
    build >&2
fi
echo "$folder/root"
