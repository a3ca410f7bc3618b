#!/bin/sh
# Runs one suite for tests/run.sh, which sets the environment, or makes the build that most of them need.
# Usage: sh tests/suite.sh build|NAME
# Every step leaves a report in $WALDO_REPORTS, which collect.py counts.
set -eu
suite=$1
reports=$WALDO_REPORTS
python=/usr/bin/python3

# step LABEL COMMAND...: a step that fails without a test report of its own counts as one failure.
step() {
    label=$1
    shift
    printf '\n== %s\n' "$label"
    "$@" || { echo "$label" >>"$reports/steps.failed"; return 1; }
}

configure() { # FOLDER MESON-OPTION...
    folder=$1
    shift
    [ -f "$folder/build.ninja" ] && return 0
    # Tests run once: compiling them costs more than a better optimizer saves.
    meson setup "$folder" -Db_lundef=false -Doptimization=1 "$@" >"$reports/$folder.log" 2>&1 && return 0
    cat "$reports/$folder.log"
    return 1
}

c_tests() { # FOLDER MESON-TEST-OPTION...
    folder=$1
    shift
    rm -f "$folder/meson-logs/$suite"*.json
    code=0
    meson test -C "$folder" --num-processes 2 --print-errorlogs --logbase "$suite" "$@" || code=$?
    if ! mv "$folder/meson-logs/$suite"*.json "$reports/$suite.json" 2>/dev/null; then
        [ "$code" -eq 0 ] || echo "$suite: the tests did not build" >>"$reports/steps.failed"
    fi
}

python_tests() { # PATH...
    scripts=$(find "$@" -name 'test_*.py' -not -path '*/node_modules/*' 2>/dev/null | sort)
    [ -n "$scripts" ] || return 0
    # shellcheck disable=SC2086 # a list of paths without spaces
    timeout --kill-after=30 3600 "$python" -m pytest -q -p no:cacheprovider -o faulthandler_timeout=600 \
        --junitxml="$reports/$suite-scripts.xml" $scripts || true
    [ -s "$reports/$suite-scripts.xml" ] || echo "$suite: pytest left no report" >>"$reports/steps.failed"
}

npm_packages() { # FOLDER: what its lock file pins, once
    [ -f "$1/package-lock.json" ] || return 0
    cmp -s "$1/package-lock.json" "$1/node_modules/.installed-lock.json" && return 0
    npm ci --prefix "$1" --no-audit --no-fund --ignore-scripts || return 1
    cp "$1/package-lock.json" "$1/node_modules/.installed-lock.json"
}

sanitized_build() {
    # Without it that step has failed, and the rest is still tested, with this machine's hand.
    hands=all
    step 'musl for arm64' sh src/hand/fetch_musl.sh arm64 build-musl || hands=native
    step 'build with sanitizers' configure build-test -Db_sanitize=address,undefined \
        "-Dhands=$hands" "-Dhands_musl=$PWD/build-musl" &&
        step 'compile' ninja -j2 -C build-test --quiet
}

run_suite() {
    began=$(date +%s)
    printf '\n== suite %s\n' "$suite"
    case $suite in
    gates)
        python_tests tests/gates tests/support
        ;;
    threads)
        if step 'build with the thread sanitizer' configure build-threads -Db_sanitize=thread; then
            c_tests build-threads --suite threads --timeout-multiplier 5
        fi
        ;;
    valgrind)
        if step 'build for valgrind' configure build-valgrind; then
            c_tests build-valgrind --setup valgrind --suite base --suite valgrind
        fi
        ;;
    *)
        if step "npm packages of $suite" npm_packages "tests/$suite"; then
            [ "$suite" != bench ] || step 'Python packages of bench' sh tests/bench/run.sh --packages || true
            c_tests build-test --no-rebuild --suite "$suite" --timeout-multiplier 3
            python_tests "tests/$suite"
        fi
        ;;
    esac
    printf '\n== suite %s took %s s\n' "$suite" "$(($(date +%s) - began))"
}

if [ "$suite" = build ]; then
    sanitized_build
else
    # What it says comes in one piece, when it ends: another one runs beside it.
    log=$reports/$suite.log code=0
    printf '== suite %s has begun: %s\n' "$suite" "${log#"$PWD/"}"
    run_suite >"$log" 2>&1 || code=$?
    flock "$reports" cat "$log"
    exit "$code"
fi
