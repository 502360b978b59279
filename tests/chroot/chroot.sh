#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: chroot.sh DIRECTORY USER
#
# Builds this tree and runs its ctest label package, as packagers do: in a Debian of its own that
# has what docs/packaging.md names, without a network, /dev/shm, /sys or a home directory. Only the
# build directory and /tmp can be written; ptrace is refused, and the tests have one CPU. As the
# user nobody, or as root and without g++. The Debian is made once, in DIRECTORY (600 MB, one to two
# minutes), from the archives that apt knows here. Prints what is skipped, and the times.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source=$(cd "$here/../.." && pwd)
PACKAGES=(gcc libc6-dev cmake make pkg-config libcmocka-dev libjansson-dev libelf-dev
	libcapstone-dev zlib1g-dev scdoc)
OPTIONAL=(g++ python3)
PACKAGES+=(dpkg-dev) # for dpkg-buildflags alone

skip() {
	echo "skipped: $*"
	exit 77
}

# The archives of this release of Debian, of those that apt knows here.
sources() {
	python3 -B - "$source/lab" "$1" "$(dpkg --print-architecture)" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import sources
release, architecture = sys.argv[2:]
entries = []
for each in sources.read_machine():
    suites = [suite for suite in each.suites if suite.partition("-")[0] == release]
    if suites:
        entries.append((each, suites, [architecture]))
print(sources.write_deb822(entries))
END
}

# make_root DIRECTORY: once for each list of packages.
make_root() {
	local root=$1 release wanted="${PACKAGES[*]} ${OPTIONAL[*]}"
	[[ ! -f $root.has || $(<"$root.has") != "$wanted" ]] || return 0
	release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	sources "$release" >"$root.sources"
	grep -q '^URIs' "$root.sources" || skip "apt knows no archive of '$release'"
	rm -rf "$root" "$root.has"
	mmdebstrap --quiet --mode=root --variant=minbase --format=directory \
		--aptopt='Acquire::Check-Valid-Until "false"' \
		--include="$(IFS=, && echo "${PACKAGES[*]},${OPTIONAL[*]}")" \
		"$release" "$root" - <"$root.sources" || skip "mmdebstrap made no root"
	mkdir "$root/src" "$root/build"
	echo "$wanted" >"$root.has"
}

# enter ROOT BUILD USER: in namespaces of its own.
enter() {
	local root=$1 build=$2 user=$3 device
	mount --make-rprivate /
	mount --bind "$root" "$root"
	mount -o remount,bind,ro "$root"
	mount --bind "$build/src" "$root/src"
	mount -o remount,bind,ro "$root/src"
	mount --bind "$build/build" "$root/build"
	mount --bind "$build/tmp" "$root/tmp"
	mount -t proc proc "$root/proc"
	mount -t tmpfs -o mode=755 tmpfs "$root/dev"
	for device in null zero full random urandom; do
		: >"$root/dev/$device"
		mount --bind "/dev/$device" "$root/dev/$device"
	done
	ln -s /proc/self/fd "$root/dev/fd"
	if [[ $user = root ]]; then
		for device in "$root"/usr/bin/*-g++-*; do
			mount --bind /dev/null "$device"
		done
	fi
	exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/nonexistent LC_ALL=C.UTF-8 \
		chroot --userspec="$user:$(id -gn "$user")" "$root" \
		bash /src/tests/chroot/inside.sh </dev/null
}

# unpack_tree DIRECTORY: what a tarball of the working tree would have.
unpack_tree() {
	git -C "$source" ls-files -z --cached --others --exclude-standard |
		tar -C "$source" --null -T - --ignore-failed-read -c | tar -x -C "$1"
}

main() {
	local work=$1 user=$2 build=$1/as_$2
	((EUID == 0)) || skip "only root can enter a root of its own"
	command -v mmdebstrap >/dev/null || skip "no mmdebstrap"
	command -v python3 >/dev/null || skip "no python3"
	git -C "$source" rev-parse --verify -q HEAD >/dev/null || skip "no git repository"
	unshare --mount --net --ipc --pid --fork true 2>/dev/null || skip "no namespaces here"
	mkdir -p "$work"
	make_root "$work/debian"
	rm -rf "$build"
	mkdir -p "$build"/{src,build,tmp}
	chmod 1777 "$build/tmp"
	chown "$user:" "$build/build"
	unpack_tree "$build/src"
	unshare --mount --net --ipc --pid --fork --kill-child \
		bash "${BASH_SOURCE[0]}" --enter "$work/debian" "$build" "$user"
	rm -rf "$build"
}

if [[ ${1:-} = --enter ]]; then
	enter "${@:2}"
fi
(($# == 2)) || { echo "usage: chroot.sh DIRECTORY USER" >&2 && exit 2; }
main "$@"
