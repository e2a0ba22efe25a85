#!/usr/bin/env bash
# Measures target/release/taskyard beside its peers. See docs/benchmarks.md.
#
#   scripts/bench.sh [--only PART,PART] [--quick] [--json FILE]
#
# Runs in a network namespace that has nothing but the loopback interface: one of the peers listens on every interface
# it finds. Where no namespace can be had, the part `peers` says so and fails; the others are measured all the same.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
driver=$root/target/release/taskyard-bench
peers=
all=" $*"
only=peers
case "$all" in
*" --only "*) only=${all#* --only } && only=${only%% *} ;;
esac
case ",$only," in
*,peers,*) peers=$("$root/scripts/install-peers.sh") ;;
esac

inside='ip link set lo up && exec "$@"'
if [ "$(id -u)" = 0 ] && unshare -n true 2>/dev/null; then
	exec unshare -n sh -c "$inside" bench "$driver" --peers "$peers" "$@"
elif unshare -rn true 2>/dev/null; then
	exec unshare -rn sh -c "$inside" bench "$driver" --peers "$peers" "$@"
else
	echo "bench: no network namespace can be made here" >&2
	exec "$driver" --peers "$peers" "$@"
fi
