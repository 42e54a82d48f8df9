#!/bin/sh
# Runs a command where there is no network; all that it starts ends with it. The shell is the first
# process there, and takes in those that lost their parent. Podman waits up to 20 s a container for
# that, where the first process of the machine does not.
exec unshare --net --pid --fork --kill-child --mount-proc sh -c '"$@"; exit $?' sh "$@"
