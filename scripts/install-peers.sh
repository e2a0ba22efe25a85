#!/usr/bin/env bash
# Installs the programs that `make bench` measures beside Taskyard, and prints the folder they are in.
#
# Versions are pinned. What is installed stays in a cache folder named after this script's content, so that running
# again costs nothing. Needs npm and python3 with venv.
set -euo pipefail

self=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
version=$(sha256sum "$self" | cut -c1-12)
cache=${TASKYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/taskyard}
root=$cache/peers-$version

KANDEV=@kdlbs/runtime-linux-x64@0.95.1
KANBAN=agentic-kanban==1.8.1

say() { echo "install-peers: $*" >&2; }

if [ ! -f "$root/done" ]; then
	rm -rf "$root"
	mkdir -p "$root/npm"
	say "installing $KANDEV"
	(cd "$root/npm" && npm init -y >/dev/null && npm i --no-audit --no-fund --loglevel=error "$KANDEV" >&2)
	say "installing $KANBAN"
	python3 -m venv "$root/venv"
	"$root/venv/bin/pip" install --quiet --disable-pip-version-check "$KANBAN" >&2
	[ -x "$root/npm/node_modules/@kdlbs/runtime-linux-x64/bin/kandev" ] || { say "kandev's program is not where it was"; exit 1; }
	[ -x "$root/venv/bin/kanban" ] || { say "kanban's program is not where it was"; exit 1; }
	touch "$root/done"
fi
echo "$root"
