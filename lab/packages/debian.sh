#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: debian.sh FOLDER
# The packages of Debian: built in a clean root without a network, with their tests unless
# DEB_BUILD_OPTIONS has nocheck; examined by lintian; every file is in one package; used by their
# autopkgtests. FOLDER/built keeps them.
# Packages: mmdebstrap dpkg-dev lintian autopkgtest iproute2 python3
set -euo pipefail
. lab/packages/common.sh
. lab/packages/debian/root.sh
. lab/packages/debian/build.sh

work=$1
need_roots
mkdir -p "$work"
rm -rf "$work/built"
source_package "$work/new"
build_root "$work/root" "$work/new" bookworm
build_packages "$work/root" "$work/new"

# What cmake installs is what the packages have, each file once, zsh's completions where packages
# have them; debhelper adds changelogs and copyrights.
tree=$(echo "$work"/root/home/builder/work/nearcpu-*/)
(cd "$tree/debian/tmp" && find . ! -type d) |
	grep -vxf <(sed 's,^,./,' "$tree/debian/not-installed") |
	sed 's,zsh/site-functions,zsh/vendor-completions,; s/\.gz$//' | sort >"$work/installed"
for deb in "$work"/new/*.deb; do
	[[ $deb = *-dbgsym_* ]] || dpkg-deb --fsys-tarfile "$deb" | tar -tf - | grep -v '/$'
done | sed 's/\.gz$//' | sort >"$work/packed"
[[ $(wc -l <"$work/packed") -gt 400 ]] || fail "the packages are almost empty"
! uniq -d "$work/packed" | grep . || fail "these are in two packages"
! comm -23 "$work/installed" "$work/packed" | grep . || fail "these are in no package"
! comm -13 "$work/installed" "$work/packed" |
	grep -vE '^\./usr/share/doc/[^/]*/(changelog(\.Debian)?|copyright)$' ||
	fail "these are from elsewhere"

# This is no upload to Debian's archive, which would close the bug that announces it.
lintian --allow-root --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs \
	--display-info "$work"/new/*.changes

new_root "$work/root" bookworm
in_root "$work/root" apt-get -qq update
with_root "$work/root" autopkgtest --no-built-binaries "$work"/new/*.deb "$work"/new/*.dsc \
	-- chroot "$work/root"
remove_root "$work/root"
mv "$work/new" "$work/built"
