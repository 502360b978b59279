#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: notes.sh FOLDER
# The code keeps the notes by which the kernel switches on a CPU's checks of jumps and returns:
# x86_64's IBT and SHSTK, aarch64's BTI and PAC. Each object has them, and each library where the
# files of the C library that are linked into it do; compiled as in Debian 13.
# Packages: mmdebstrap iproute2 binutils python3
set -euo pipefail
. lab/packages/common.sh
. lab/packages/debian/root.sh

work=$1
need_roots
trap 'remove_root "$work/root"' EXIT

# having PROPERTY FILE...: prints the names of those that have it.
having() {
	readelf -nW "${@:2}" | awk -v property="$1" '
		/^File: / { file = $2 }
		/Properties:/ && index($0, property) { print file }'
}

# notes CPU COMPILER FLAGS PROPERTY: builds in $work/root, and compares.
notes() {
	local cpu=$1 compiler=$2 flags=$3 property=$4 build=$work/root/srv/$1 objects libraries crt
	in_root "$work/root" --offline bash -euc "cmake -G Ninja -S /srv/tree -B /srv/$cpu \
		-DCMAKE_SYSTEM_NAME=Linux -DCMAKE_SYSTEM_PROCESSOR=$cpu -DCMAKE_BUILD_TYPE=None \
		-DCMAKE_C_COMPILER=$compiler -DCMAKE_C_FLAGS='-O2 $flags' -DNEAR_TESTS=OFF \
		-DNEAR_TOOLS=OFF && cmake --build /srv/$cpu"
	mapfile -t objects < <(find "$build"/CMakeFiles/nearcpu* -name '*.o' | sort)
	mapfile -t libraries < <(find "$build" -name '*.so.*' -type f | sort)
	((${#objects[@]} > 100 && ${#libraries[@]} >= 7)) || fail "$cpu: not all was built"
	printf '%s\n' "${objects[@]}" | grep -vxFf <(having "$property" "${objects[@]}") &&
		fail "$cpu: these objects lack $property"
	say "ok $cpu: ${#objects[@]} objects: $property"

	crt=$(in_root "$work/root" "$compiler" -print-file-name=crti.o)
	if (($(having "$property" "$work/root"{"$crt","${crt/crti/crtn}"} | wc -l) < 2)); then
		say "without libraries: this C library's crti.o and crtn.o lack $property"
		return
	fi
	printf '%s\n' "${libraries[@]}" | grep -vxFf <(having "$property" "${libraries[@]}") &&
		fail "$cpu: these libraries lack $property"
	say "ok $cpu: ${#libraries[@]} libraries: $property"
}

mkdir -p "$work"
new_root "$work/root" trixie
copy_sources "$work/root/srv/tree"
in_root "$work/root" bash -c 'apt-get -qq update && apt-get -y -qq install gcc libc6-dev cmake \
	ninja-build gcc-aarch64-linux-gnu libc6-dev-arm64-cross'
notes x86_64 gcc -fcf-protection=full 'x86 feature: IBT, SHSTK'
notes aarch64 aarch64-linux-gnu-gcc -mbranch-protection=standard 'AArch64 feature: BTI, PAC'
