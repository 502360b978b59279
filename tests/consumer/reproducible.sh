#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Builds and installs the sources in two folders, by another number of processes: what is installed
# is the same, byte for byte. Compiled as distributions do, each object has the note of protected
# branches and returns: a program or library has it only if all of its objects do.
# tests/consumer/CMakeLists.txt sets SOURCE, STAGE and CMAKE.
set -euo pipefail

unset LD_LIBRARY_PATH CMAKE_C_COMPILER_LAUNCHER CMAKE_CXX_COMPILER_LAUNCHER
work=$STAGE/reproducible
case $(uname -m) in
x86_64) protection=-fcf-protection=full note="x86 feature: IBT, SHSTK" ;;
aarch64) protection=-mbranch-protection=standard note="AArch64 feature: BTI, PAC" ;;
*) protection="" note="" ;;
esac
rm -rf "$work"

# build FOLDER PROCESSES: installs to FOLDER/root.
build() {
	mkdir -p "$1/source"
	tar -C "$SOURCE" --exclude=./build --exclude=./.git -cf - . | tar -C "$1/source" -xf -
	"$CMAKE" -G Ninja -S "$1/source" -B "$1/build" -DNEAR_TESTS=OFF -DNEAR_BENCH=OFF \
		-DCMAKE_BUILD_TYPE=None -DCMAKE_INSTALL_PREFIX=/usr \
		-DCMAKE_C_FLAGS="-O1 -g $protection" >"$1/log"
	"$CMAKE" --build "$1/build" --parallel "$2" >>"$1/log" || { tail "$1/log" && exit 1; }
	DESTDIR=$1/root "$CMAKE" --install "$1/build" >>"$1/log"
}

build "$work/a" 2
build "$work/another/longer/name" 1
diff -r "$work/a/root" "$work/another/longer/name/root"
find "$work/a/root" -name '*.a' -exec readelf -n {} + | awk -v note="$note" '
	function check() { if (file != "" && !has) { print "no note: " file; bad = 1 } }
	/^File: / { check(); file = $0; has = note == "" }
	note != "" && index($0, note) { has = 1 }
	END { check(); exit bad || file == "" }'
[[ -s $work/a/root/usr/share/doc/nearcpu/LICENSE ]]
rm -rf "$work"
