#!/usr/bin/env bash
# Runs a command where only this machine can be reached: in a network namespace of its own with nothing but loopback.
# Needs root for that; otherwise it says so and runs the command as it is.
#
#   scripts/offline.sh COMMAND…
set -euo pipefail
[ $# -gt 0 ] || { echo "offline: which command?" >&2; exit 2; }
if unshare --net true 2>/dev/null && command -v ip >/dev/null; then
	# shellcheck disable=SC2016 # expanded inside
	exec unshare --net sh -c 'ip link set lo up && exec "$@"' sh "$@"
fi
echo "offline: no network namespace here (that takes root and iproute2): the network stays reachable" >&2
exec "$@"
