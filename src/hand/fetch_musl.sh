#!/bin/sh
# Unpacks Debian's musl for another processor into a folder, where -Dhands=all finds it: apt checks
# the packages as always, but neither root is needed nor anything of the system changed.
# usage: fetch_musl.sh amd64|arm64 FOLDER
set -eu

[ $# -eq 2 ] || { echo 'usage: fetch_musl.sh amd64|arm64 FOLDER' >&2; exit 64; }
case $1 in
amd64) name=x86_64 ;;
arm64) name=aarch64 ;;
*) echo "fetch_musl.sh: $1 is not amd64 or arm64" >&2; exit 64 ;;
esac
arch=$1 folder=$2
[ -s "$folder/usr/lib/$name-linux-musl/libc.a" ] && exit 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial" "$work/cache/archives/partial" "$folder"
apt() {
    apt-get -q -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" \
        -o "APT::Architecture=$arch" -o "APT::Architectures::=$arch" -o APT::Sandbox::User= \
        -o Acquire::Languages=none -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
        -o Acquire::IndexTargets::deb::Contents-deb::DefaultEnabled=false "$@"
}
apt update
(cd "$work" && apt download musl-dev)
dpkg-deb -x "$work"/musl-dev_*.deb "$folder"
