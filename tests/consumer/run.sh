#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: run.sh install | package | pkgconfig_shared | pkgconfig_static | pkgconfig_archive |
#               symbols | embed subdirectory | embed fetch
# Builds a program against Nearcpu in one way and runs it. tests/consumer/CMakeLists.txt sets
# SOURCE, BUILD, STAGE, LIBDIR, CMAKE, CC and CXX.
set -euo pipefail

prefix=$STAGE/moved
here=$SOURCE/tests/consumer
export PKG_CONFIG_PATH=$prefix/$LIBDIR/pkgconfig
unset LD_LIBRARY_PATH DESTDIR

die() {
	echo "$*" >&2
	exit 1
}

# The prefix is moved after the installation: nothing in it may name the place it was made for.
install_prefix() {
	rm -rf "$STAGE/prefix" "$prefix"
	"$CMAKE" --install "$BUILD" --prefix "$STAGE/prefix"
	mv "$STAGE/prefix" "$prefix"
	if grep -rIl -e "$STAGE/prefix" -e "$SOURCE" "$prefix"; then
		die "these files name the directory they were made in"
	fi
	[[ -s $prefix/$LIBDIR/libnearcpu.a && -s $prefix/include/nearcpu/rseq.h ]]
}

run_all() {
	local program

	for program in "$@"; do
		echo "+ $program"
		"$program"
	done
}

build_and_run() {
	local dir=$1

	shift
	rm -rf "$dir"
	"$CMAKE" -G Ninja -B "$dir" "$@"
	"$CMAKE" --build "$dir"
	run_all "$dir"/c*_nearcpu "$dir"/c*_nearcpu_static
}

links_shared() {
	readelf -d "$1" | grep -q 'NEEDED.*\[libnearcpu\.so\.0\]'
}

# pkgconfig HOW FLAG...: the program, with what pkg-config says and FLAGs.
pkgconfig() {
	local program=$STAGE/pkgconfig_$1 flags

	shift
	pkg-config --atleast-version=0.1.0 nearcpu
	read -ra flags <<<"$(pkg-config "$@" --cflags --libs nearcpu)"
	[[ $* = *--static* ]] && flags+=(-static)
	[[ $program = *_archive ]] && flags=("${flags[@]/#-lnearcpu/-l:libnearcpu.a}")
	"$CC" -Wall -Wextra -Werror "$here/main.c" -o "$program" "${flags[@]}"
	if [[ $program = *_shared ]]; then
		links_shared "$program" || die "$program does not need libnearcpu.so.0"
		LD_LIBRARY_PATH=$prefix/$LIBDIR run_all "$program"
	else
		links_shared "$program" && die "$program needs libnearcpu.so"
		run_all "$program"
	fi
}

# The SONAME, the flags, and that each exported symbol is ours and has the version of its kind.
symbols() {
	local library=$prefix/$LIBDIR/libnearcpu.so dynamic exported wrong

	dynamic=$(readelf -dW "$library")
	grep -q 'SONAME.*\[libnearcpu\.so\.0\]' <<<"$dynamic" || die "wrong SONAME"
	grep -q 'FLAGS_1.*NOW.*NODELETE' <<<"$dynamic" || die "not -z now -z nodelete"
	readelf -lW "$library" | grep -q GNU_RELRO || die "not linked with -z relro"
	if grep NEEDED <<<"$dynamic" | grep -vE '\[(libc|ld-linux[^]]*)\.so\.[0-9]+\]'; then
		die "needs more than libc"
	fi

	exported=$(nm -D --defined-only "$library" | awk '{ print $3 }' | grep -v '^NEARCPU_')
	wrong=$(grep -vxE -e 'near_[a-z][a-z0-9_]*@@NEARCPU_0\.1' \
		-e 'near__[a-z0-9_]*@@NEARCPU_PRIVATE' -e vfork <<<"$exported" || true)
	[[ -z $wrong ]] || die "exported by mistake or with the wrong version:"$'\n'"$wrong"
	grep -qx 'near_rseq_status@@NEARCPU_0\.1' <<<"$exported" || die "no near_rseq_status"
	grep -qx vfork <<<"$exported" || die "vfork of ours is missing or has a version"
	echo "$(wc -l <<<"$exported") symbols"
}

case ${1:-} in
install) install_prefix ;;
package)
	build_and_run "$STAGE/package" -S "$here/package" -DCMAKE_PREFIX_PATH="$prefix"
	;;
pkgconfig_shared) pkgconfig shared ;;
pkgconfig_static) pkgconfig static --static ;;
pkgconfig_archive) pkgconfig archive --static ;;
symbols) symbols ;;
embed)
	build_and_run "$STAGE/embed_$2" -S "$here/embed" -DHOW="$2" -DNEARCPU_SOURCE="$SOURCE"
	;;
*) die "usage: run.sh TEST" ;;
esac
