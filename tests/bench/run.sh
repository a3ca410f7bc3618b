#!/bin/sh
# Measures waldo, bare libcurl, the Node peers and Docker in one run; prints one table.
# Usage: sh tests/bench/run.sh [options of run.py]; --packages alone only installs what it needs
set -eu
cd "$(dirname "$0")"
venv=../../build-bench-venv
lock=node_modules/.installed-lock.json
if command -v npm >/dev/null 2>&1 && ! cmp -s package-lock.json "$lock"; then
    npm ci --no-audit --no-fund --ignore-scripts >&2
    cp package-lock.json "$lock"
fi
if ! cmp -s requirements.txt "$venv/.installed-requirements.txt"; then
    /usr/bin/python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r requirements.txt >&2
    cp requirements.txt "$venv/.installed-requirements.txt"
fi
[ "${1:-}" = --packages ] && exit
exec python3 run.py "$@"
