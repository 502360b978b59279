#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Programs that a compiler links with -latomic run on ours, in each form in which it can take the
# place of another. From the environment:
#   CC, CXX    compilers; CXX may be empty
#   LIBATOMIC  the directory of our libatomic.so.1, libatomic.so, libatomic.a
#   SHARED     our library under its own name, or empty: then no form that needs a shared one
#   EMULATOR   what runs the programs, or empty; SYSROOT: where it finds their libraries
set -euo pipefail
export LC_ALL=C
here=$(dirname "$(realpath "${BASH_SOURCE[0]}")")/forms
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory"
forms=0

fail() { echo "${CC##*/}: $*"; exit 1; }

# run PROGRAM [NAME=VALUE...]
run() {
	local program=$1 variable options=()
	shift
	if [[ -z $EMULATOR ]]; then
		env "$@" "$program"
		return
	fi
	for variable; do options+=(-E "$variable"); done
	"$EMULATOR" ${SYSROOT:+-L "$SYSROOT"} "${options[@]}" "$program"
}

# runs FORM PROGRAM [NAME=VALUE...]
runs() {
	local form=$1
	shift
	run "$@" >"out" 2>&1 || fail "$form: status $?: $(tail -n 5 out)"
	[[ $(tail -n 1 out) = "done" ]] || fail "$form: $(<out)"
	forms=$((forms + 1))
}

# binds FORM PROGRAM LIBRARY [NAME=VALUE...]: runs, and all atomic calls go to LIBRARY.
binds() {
	local form=$1 program=$2 library=$3 found
	shift 3
	runs "$form" "$program" "$@"
	[[ $glibc = yes ]] || return 0
	run "$program" "$@" LD_DEBUG=bindings LD_BIND_NOW=1 >bindings 2>&1 ||
		fail "$form: status $? with LD_DEBUG"
	found=$(sed -n "s/.*binding file .* to \(.*\) \[0\]: .* [[]LIBATOMIC_1.*/\1/p" bindings |
		sort -u)
	[[ $found = "$library" ]] || fail "$form: the calls go to '$found', not to $library"
}

# contains FORM PROGRAM: it has our library in itself, and needs none.
contains() {
	nm "$2" | grep ' near__atomic' >/dev/null || fail "$1: ours is not in it"
	if readelf -d "$2" 2>/dev/null | grep 'NEEDED.*atomic'; then
		fail "$1: needs a libatomic"
	fi
	runs "$1" "$2"
}

# shared_forms NAME BUILD...: BUILD compiles; libraries come behind it.
shared_forms() {
	local name=$1
	shift
	"$@" -o "$name" -L "$LIBATOMIC" -latomic -pthread
	binds "$name, linked with ours" "./$name" "$LIBATOMIC/libatomic.so.1" \
		"LD_LIBRARY_PATH=$LIBATOMIC"
	# Linked with GCC's, if there is one.
	"$@" -o "$name" -latomic -pthread 2>/dev/null || return 0
	binds "$name, LD_LIBRARY_PATH" "./$name" "$LIBATOMIC/libatomic.so.1" \
		"LD_LIBRARY_PATH=$LIBATOMIC"
	# musl does not use a preloaded library for one that the program needs by name.
	[[ $glibc = yes ]] || return 0
	binds "$name, LD_PRELOAD" "./$name" "$LIBATOMIC/libatomic.so.1" \
		"LD_PRELOAD=$LIBATOMIC/libatomic.so.1"
	binds "$name, LD_PRELOAD of its own name" "./$name" "$SHARED" "LD_PRELOAD=$SHARED"
}

static_forms() {
	local name=$1
	shift
	"$@" -static -o "$name" -L "$LIBATOMIC" -latomic -pthread
	contains "$name, static" "./$name"
	if [[ $glibc = yes && -f $("$CC" -print-file-name=rcrt1.o) ]]; then
		"$@" -static-pie -fPIE -o "$name" -L "$LIBATOMIC" -latomic -pthread
		contains "$name, static and position-independent" "./$name"
	fi
	[[ -n $SHARED ]] || return 0
	"$@" -o "$name" -L "$LIBATOMIC" -l:libatomic.a -pthread
	contains "$name, the archive in a dynamic program" "./$name"
}

glibc=no
if "$CC" -dM -E -include features.h - </dev/null 2>/dev/null | grep '__GLIBC__' >/dev/null; then
	glibc=yes
fi
rounds=20000
[[ -z $EMULATOR ]] || rounds=2000
for level in -O0 -O2; do
	build=("$CC" "-DROUNDS=$rounds" -w -std=gnu11 "$level" "$here/wide.c")
	[[ -z $SHARED || $level = -O0 ]] || shared_forms "c$level" "${build[@]}"
	static_forms "c$level" "${build[@]}"
done
if [[ -n $CXX ]]; then
	build=("$CXX" "-DROUNDS=$rounds" -w -std=c++17 -O2 "$here/wide.cc")
	[[ -z $SHARED ]] || shared_forms "c++" "${build[@]}"
	static_forms "c++" "${build[@]}"
fi
echo "$forms forms"
