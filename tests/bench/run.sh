#!/bin/sh
# Measures waldo, bare libcurl and the Node peers in one run; prints one table.
# Usage: sh tests/bench/run.sh [options of run.py]
set -eu
cd "$(dirname "$0")"
lock=node_modules/.installed-lock.json
if command -v npm >/dev/null 2>&1 && ! cmp -s package-lock.json "$lock"; then
    npm ci --no-audit --no-fund --ignore-scripts >&2
    cp package-lock.json "$lock"
fi
exec python3 run.py "$@"
