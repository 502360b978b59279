#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: upgrade.sh FOLDER
# Two versions of Debian's packages, ~1 and ~2, built without tests: piuparts installs them in a
# clean root, removes and purges them, and upgrades from the first to the second; nothing may be
# left of them.
# Packages: mmdebstrap dpkg-dev piuparts iproute2 python3
set -euo pipefail
. lab/packages/common.sh
. lab/packages/debian/root.sh
. lab/packages/debian/build.sh

work=$1
need_roots
mkdir -p "$work"
export DEB_BUILD_OPTIONS=nocheck
source_package "$work/1" '~1'
source_package "$work/2" '~2'
build_root "$work/root" "$work/1" bookworm
build_packages "$work/root" "$work/1"
build_packages "$work/root" "$work/2"
remove_root "$work/root"
(cd "$work/1" && dpkg-scanpackages . >Packages)

# The root's archives, which it has already; those of the first version are one more.
new_root "$work/root" bookworm
echo "deb [trusted=yes] file:$work/1 ./" >"$work/root/etc/apt/sources.list.d/first.list"
rm "$work/root/usr/sbin/policy-rc.d"
tar -C "$work/root" --numeric-owner -czf "$work/base.tar.gz" .
remove_root "$work/root"

log=$work/piuparts.log
unshare --mount --pid --fork --kill-child --mount-proc piuparts --distribution=bookworm \
	--basetgz="$work/base.tar.gz" --keep-sources-list --bindmount="$work/1" \
	"$work"/2/*.changes >"$log" 2>&1 ||
	{ tail -n 40 "$log" && fail "the log is $log"; }
for line in 'Installation and purging test' 'Installation, upgrade and purging tests' \
	'All tests'; do
	grep "PASS: $line" "$log" || fail "not in $log: $line"
done
grep -q "libnearcpu-dev.*$(version)-1~1" "$log" || fail "the first version was never there: $log"
