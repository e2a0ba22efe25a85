#!/bin/sh
# A throw-away PostgreSQL for the tests: no durability, a random port on loopback, gone afterwards.
#
#   scripts/test-postgres.sh run COMMAND...   start one, run COMMAND with TASKYARD_TEST_POSTGRES_URL set, stop it
#   scripts/test-postgres.sh start            start one (or find the running one) and print its URL
#   scripts/test-postgres.sh stop             stop it and remove its files
#
# As root it installs Debian's package where PostgreSQL is missing. Where it can't be had, `run` says loudly what
# is skipped and goes on without; with CI=true that is a failure instead.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
state="$root/target/test-postgres"

say() { printf '%s\n' "$*" >&2; }

find_bin() {
    if command -v initdb >/dev/null 2>&1 && command -v pg_ctl >/dev/null 2>&1; then
        dirname "$(command -v initdb)"
        return 0
    fi
    # The newest version that Debian's packages left here.
    for dir in $(ls -d /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql*/bin 2>/dev/null | sort -V -r); do
        if [ -x "$dir/initdb" ] && [ -x "$dir/pg_ctl" ]; then
            printf '%s\n' "$dir"
            return 0
        fi
    done
    return 1
}

install_package() {
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || return 1
    say "PostgreSQL is missing: installing Debian's package"
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends postgresql; } >&2
}

# PostgreSQL refuses to run as root.
as_owner() {
    if [ "$(id -u)" != 0 ]; then
        "$@"
    else
        (cd / && setpriv --reuid="$(id -u "$owner")" --regid="$(id -g "$owner")" --clear-groups -- "$@")
    fi
}

start() {
    if [ -f "$state" ]; then
        . "$state"
        if as_owner "$bin/pg_ctl" -D "$dir/data" status >/dev/null 2>&1; then
            printf '%s\n' "$url"
            return 0
        fi
        stop
    fi
    bin=$(find_bin) || { install_package && bin=$(find_bin); } || return 1
    owner=nobody
    if id postgres >/dev/null 2>&1; then owner=postgres; fi
    dir=$(mktemp -d "${TMPDIR:-/tmp}/taskyard-postgres.XXXXXX")
    if [ "$(id -u)" = 0 ]; then chown "$owner" "$dir"; fi
    mkdir -p "$root/target"
    as_owner "$bin/initdb" -D "$dir/data" -A trust -U taskyard -E UTF8 --locale=C --no-sync >"$dir.log" 2>&1 || { cat "$dir.log" >&2; return 1; }
    settings="-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c max_connections=400 -c listen_addresses=127.0.0.1"
    settings="$settings -c unix_socket_directories=$dir -c autovacuum=off"
    tries=0
    while [ $tries -lt 20 ]; do
        tries=$((tries + 1))
        port=$((20000 + $(od -An -N2 -tu2 /dev/urandom) % 12000))
        if as_owner "$bin/pg_ctl" -D "$dir/data" -w -t 60 -l "$dir/server.log" -o "$settings -p $port" start >/dev/null 2>&1; then
            url="postgres://taskyard@127.0.0.1:$port/postgres"
            printf 'bin=%s\nowner=%s\ndir=%s\nurl=%s\n' "'$bin'" "'$owner'" "'$dir'" "'$url'" >"$state"
            rm -f "$dir.log"
            printf '%s\n' "$url"
            return 0
        fi
    done
    say "PostgreSQL could not be started:"
    cat "$dir/server.log" >&2
    return 1
}

stop() {
    [ -f "$state" ] || return 0
    . "$state"
    as_owner "$bin/pg_ctl" -D "$dir/data" -m immediate -w stop >/dev/null 2>&1 || true
    case "$dir" in
    */taskyard-postgres.*) rm -rf "$dir" ;;
    esac
    rm -f "$state"
}

skipped() {
    say "======================================================================"
    say "NO POSTGRESQL: every test that needs it is SKIPPED."
    say "Get it with: apt-get install postgresql (as root this script does that),"
    say "or set TASKYARD_TEST_POSTGRES_URL to a server where databases may be made."
    say "======================================================================"
}

case "${1:-}" in
start)
    start || { skipped; exit 1; }
    ;;
stop)
    stop
    ;;
run)
    shift
    if [ -n "${TASKYARD_TEST_POSTGRES_URL:-}" ]; then exec "$@"; fi
    # A server of its own: two runs side by side don't stop each other's.
    state="$state.$$"
    trap stop EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    if TASKYARD_TEST_POSTGRES_URL=$(start); then
        export TASKYARD_TEST_POSTGRES_URL
    else
        unset TASKYARD_TEST_POSTGRES_URL
        skipped
        if [ "${CI:-}" = true ]; then exit 1; fi
    fi
    "$@"
    ;;
*)
    say "usage: $0 run COMMAND... | start | stop"
    exit 2
    ;;
esac
