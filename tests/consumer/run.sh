#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: run.sh install | package | pkgconfig_shared | pkgconfig_static | pkgconfig_archive |
#               symbols | libatomic | libatomic_static | embed subdirectory | embed fetch
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
	[[ -s $prefix/$LIBDIR/libnearcpu.a && -s $prefix/include/nearcpu/rseq.h &&
		-s $prefix/$LIBDIR/libnearcpu-torture.a && -s $prefix/$LIBDIR/libnearcpu-atomic.a &&
		-s $prefix/$LIBDIR/nearcpu/libatomic.a ]]
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
	run_all "$dir"/c*_nearcpu "$dir"/c*_nearcpu_static "$dir"/c_torture \
		"$dir"/c_torture_static "$dir"/c_atomic "$dir"/c_atomic_static
	is_atomic "$dir"/c_atomic_static
}

# is_atomic PROGRAM: it contains our libatomic, needs none, and shows the locks to its plugins, if
# it has any.
is_atomic() {
	local dynamic symbols shown

	dynamic=$(readelf -dW "$1")
	symbols=$(nm "$1")
	shown=$(nm -D "$1" 2>/dev/null || true)
	[[ $dynamic != *NEEDED*atomic* ]] || die "$1 needs a libatomic"
	grep -qw near__atomic_table <<<"$symbols" || die "$1 contains another libatomic"
	[[ -z $shown ]] || grep -qw 'u near__atomic_table' <<<"$shown" ||
		die "$1 keeps the locks to itself"
}

# links_shared PROGRAM LIBRARY
links_shared() {
	readelf -d "$1" | grep -q "NEEDED.*\\[lib$2\\.so\\.0\\]"
}

# compile PROGRAM SOURCE PACKAGES FLAG...: with what pkg-config says of the packages and FLAGs.
compile() {
	local program=$1 file=$2 packages flags

	read -ra packages <<<"$3"
	shift 3
	read -ra flags <<<"$(pkg-config "$@" --cflags --libs "${packages[@]}")"
	[[ $* = *--static* ]] && flags+=(-static)
	[[ $program = *_archive* ]] && flags=("${flags[@]/%-lnearcpu/-l:libnearcpu.a}") &&
		flags=("${flags[@]/%-lnearcpu-torture/-l:libnearcpu-torture.a}") &&
		flags=("${flags[@]/%-lnearcpu-atomic/-l:libnearcpu-atomic.a}")
	"$CC" -Wall -Wextra -Werror "$file" -o "$program" "${flags[@]}"
}

# pkgconfig HOW FLAG...: the programs, with what pkg-config says and FLAGs.
pkgconfig() {
	local how=$1 program=$STAGE/pkgconfig_$1

	shift
	pkg-config --atleast-version=0.1.0 nearcpu nearcpu-torture
	compile "$program" "$here/main.c" nearcpu "$@"
	compile "${program}_torture" "$here/proof.c" "nearcpu-torture nearcpu" "$@"
	compile "${program}_atomic" "$here/atomic.c" nearcpu-atomic "$@"
	if [[ $how = shared ]]; then
		links_shared "$program" nearcpu || die "$program does not need libnearcpu.so.0"
		links_shared "${program}_torture" nearcpu-torture ||
			die "${program}_torture does not need libnearcpu-torture.so.0"
		links_shared "${program}_atomic" nearcpu-atomic ||
			die "${program}_atomic does not need libnearcpu-atomic.so.0"
		LD_LIBRARY_PATH=$prefix/$LIBDIR run_all "$program" "${program}_torture" \
			"${program}_atomic"
	else
		links_shared "$program" nearcpu && die "$program needs libnearcpu.so"
		links_shared "${program}_torture" nearcpu-torture &&
			die "${program}_torture needs libnearcpu-torture.so"
		is_atomic "${program}_atomic"
		run_all "$program" "${program}_torture" "${program}_atomic"
	fi
}

# hardened NAME: the SONAME and the flags of a library.
hardened() {
	local library=$prefix/$LIBDIR/lib$1.so dynamic

	dynamic=$(readelf -dW "$library")
	grep -q "SONAME.*\\[lib$1\\.so\\.0\\]" <<<"$dynamic" || die "wrong SONAME"
	grep -q 'FLAGS_1.*NOW.*NODELETE' <<<"$dynamic" || die "not -z now -z nodelete"
	readelf -lW "$library" | grep -q GNU_RELRO || die "not linked with -z relro"
	if grep NEEDED <<<"$dynamic" | grep -vE '\[(libc|ld-linux[^]]*)\.so\.[0-9]+\]'; then
		die "$library needs more than libc"
	fi
}

exported_by() {
	nm -D --defined-only "$prefix/$LIBDIR/lib$1.so" | awk '{ print $3 }' | grep -v '^NEARCPU_'
}

# Each exported symbol is ours and has the version of its kind.
symbols() {
	local exported wrong

	hardened nearcpu
	hardened nearcpu-torture
	hardened nearcpu-atomic
	[[ $(exported_by nearcpu-torture) = near_torture@@NEARCPU_TORTURE_0.1 ]] ||
		die "libnearcpu-torture exports something else"
	exported=$(exported_by nearcpu)
	wrong=$(grep -vxE -e 'near_[a-z][a-z0-9_]*@@NEARCPU_0\.1' \
		-e 'near__[a-z0-9_]*@@NEARCPU_PRIVATE' -e vfork -e clone <<<"$exported" || true)
	[[ -z $wrong ]] || die "exported by mistake or with the wrong version:"$'\n'"$wrong"
	grep -qx 'near_rseq_status@@NEARCPU_0\.1' <<<"$exported" || die "no near_rseq_status"
	grep -qx vfork <<<"$exported" || die "vfork of ours is missing or has a version"
	grep -qx clone <<<"$exported" || die "clone of ours is missing or has a version"
	echo "$(wc -l <<<"$exported") symbols"
}

# libatomic [-static]: a program linked as always, by -latomic, from the directory that a
# distribution puts in its place.
libatomic() {
	local program=$STAGE/libatomic${1:-} dir dynamic linker listed

	dir=$(pkg-config --variable=libatomicdir nearcpu-atomic)
	"$CC" -Wall -Wextra -Werror "$here/atomic.c" -o "$program" "$@" -L"$dir" -latomic
	if [[ $# -gt 0 ]]; then
		is_atomic "$program"
		run_all "$program"
		return
	fi
	dynamic=$(readelf -dW "$dir/libatomic.so.1")
	[[ $dynamic = *SONAME*"[libatomic.so.1]"* && -e $dir/libatomic.so ]] ||
		die "wrong names in $dir"
	dynamic=$(readelf -dW "$program")
	[[ $dynamic = *NEEDED*"[libatomic.so.1]"* ]] || die "$program does not need libatomic.so.1"
	LD_LIBRARY_PATH=$dir run_all "$program"
	linker=$(readelf -lW "$program" | sed -n 's/.*program interpreter: \(.*\)\]/\1/p')
	listed=$(LD_LIBRARY_PATH=$dir "$linker" --list "$program")
	[[ $listed = *"libatomic.so.1 => $dir/libatomic.so.1"* ]] ||
		die "another libatomic came first:"$'\n'"$listed"
	if [[ -x $prefix/bin/nearcpu ]]; then
		"$prefix/bin/nearcpu" run --atomic "$program"
	fi
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
libatomic) libatomic ;;
libatomic_static) libatomic -static ;;
embed)
	build_and_run "$STAGE/embed_$2" -S "$here/embed" -DHOW="$2" -DNEARCPU_SOURCE="$SOURCE"
	;;
*) die "usage: run.sh TEST" ;;
esac
