#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: newcomer.sh FOLDER
# A fresh Debian 12 that has only Debian's packages and ours, which apt takes from an archive of
# their own: what README.md and the manual pages state is done there by their text as installed.
# lab/packages/debian/newcomer.sh is what runs inside, without a network.
# Packages: mmdebstrap dpkg-dev iproute2 python3
set -euo pipefail
. lab/packages/common.sh
. lab/packages/debian/root.sh
. lab/packages/debian/build.sh

work=$1
need_roots
mkdir -p "$work"
find_debs
trap 'remove_root "$work/root"' EXIT
new_root "$work/root" bookworm

mkdir "$work/root/srv/nearcpu"
cp "$DEBS"/*.deb "$work/root/srv/nearcpu"
(cd "$work/root/srv/nearcpu" && dpkg-scanpackages . >Packages)
echo 'deb [trusted=yes] file:/srv/nearcpu ./' >"$work/root/etc/apt/sources.list.d/nearcpu.list"

# A Debian on which programs are written has these, and installs what packages recommend.
rm -f "$work"/root/etc/apt/apt.conf.d/*mmdebstrap "$work/root/srv/nearcpu"/*dbgsym*
in_root "$work/root" bash -c 'apt-get -qq update && apt-get -y -qq install --no-install-recommends \
	man-db bash-completion gcc libc6-dev pkg-config procps redis-server systemd zsh fish &&
	apt-get -y -qq install libnearcpu-dev nearcpu libnearcpu-doc nearcpu-bench &&
	useradd --create-home --shell /bin/bash newcomer'

cp lab/packages/debian/newcomer.sh "$work/root/tmp"
in_root "$work/root" --offline bash /tmp/newcomer.sh
say "all that the documents promise, done by them"
