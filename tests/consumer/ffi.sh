#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: ffi.sh versions | alloc | rust | inlined | go
# What other languages take from the installed packages. tests/consumer/CMakeLists.txt sets SOURCE,
# STAGE, LIBDIR, VERSION, CMAKE, CC and CXX.
set -euo pipefail

prefix=$STAGE/moved
here=$SOURCE/tests/consumer
export PKG_CONFIG_PATH=$prefix/$LIBDIR/pkgconfig
unset LD_LIBRARY_PATH DESTDIR
LIBRARIES=(nearcpu nearcpu-alloc nearcpu-atomic nearcpu-ffi nearcpu-malloc nearcpu-torture)

die() {
	echo "$*" >&2
	exit 1
}

skip() {
	echo "skipped: $*"
	exit 77
}

# same WHAT IS WANTED
same() {
	[[ $2 = "$3" ]] || die "$1: '$2', not '$3'"
}

# ---- versions ----

header_version() {
	"$CC" -E -P -I"$prefix/include" -x c - <<-'END' | tail -1 | tr -d ' '
		#include <nearcpu/api.h>
		NEAR_VERSION_MAJOR.NEAR_VERSION_MINOR.NEAR_VERSION_PATCH
	END
}

# library_version FLAG...: what a program finds that is linked so.
library_version() {
	"$CC" -I"$prefix/include" -x c - -x none -o "$STAGE/version" "$@" <<-'END'
		#include <nearcpu/api.h>
		#include <stdio.h>
		int main(void)
		{
			int v = near_version();
			printf("%d.%d.%d\n", v / 10000, v / 100 % 100, v % 100);
			return v != NEAR_VERSION;
		}
	END
	LD_LIBRARY_PATH=$prefix/$LIBDIR "$STAGE/version"
}

# symbol_versions LIBRARY: the policy of near_abi(7).
symbol_versions() {
	local name=${1#nearcpu} node unversioned=() private exported wrong
	name=${name^^}
	node=NEARCPU${name/-/_}_${VERSION:?}
	node=${node%.*}
	private="NEARCPU_PRIVATE_${VERSION%.*}"
	case $1 in
	nearcpu | nearcpu-alloc) unversioned=(-e vfork -e __vfork -e clone) ;;
	nearcpu-malloc) unversioned=(-e '[^@]*') ;;
	nearcpu-atomic)
		unversioned=(-e '[^@]*@@LIBATOMIC_1\.[0-9]')
		private=NEARCPU_ATOMIC_PRIVATE
		;;
	esac
	exported=$(nm -D --defined-only "$prefix/$LIBDIR/lib$1.so" | awk '$2 != "A" { print $3 }')
	[[ $exported ]] || die "lib$1.so exports nothing"
	wrong=$(grep -vE "^near_" <<<"$exported" | grep -vxE "${unversioned[@]:--e^$}" || true)
	wrong+=$(grep -E "^near__" <<<"$exported" | grep -vxE -e "near__[a-z0-9_]*@@$private" \
		-e near__first@@NEARCPU_PRIVATE || true)
	wrong+=$(grep -E "^near_[a-z]" <<<"$exported" | grep -vxE "near_[a-z0-9_]*@@$node" || true)
	[[ -z $wrong ]] || die "lib$1.so: not by the policy of near_abi(7):"$'\n'"$wrong"
}

versions() {
	local library flags soname
	same "the headers" "$(header_version)" "$VERSION"
	read -ra flags <<<"$(pkg-config --libs nearcpu)"
	same "libnearcpu.so" "$(library_version "${flags[@]}")" "$VERSION"
	same "libnearcpu.a" "$(library_version "${flags[@]/%-lnearcpu/-l:libnearcpu.a}" -pthread)" \
		"$VERSION"
	for library in "${LIBRARIES[@]}"; do
		same "pkg-config $library" "$(pkg-config --modversion "$library")" "$VERSION"
		soname=$(readelf -dW "$prefix/$LIBDIR/lib$library.so" |
			sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
		same "SONAME of $library" "$soname" "lib$library.so.${VERSION%.*}"
		[[ -s $prefix/$LIBDIR/lib$library.so.$VERSION ]] || die "no lib$library.so.$VERSION"
		symbol_versions "$library"
	done
	grep -q "^set(PACKAGE_VERSION \"$VERSION\")" \
		"$prefix/$LIBDIR/cmake/nearcpu/nearcpuConfigVersion.cmake" ||
		die "another version of the CMake package"
}

# ---- programs ----

# libnearcpu-alloc by pkg-config; the program is tests/dropin/own.c.
alloc() {
	local program=$STAGE/own flags dynamic
	read -ra flags <<<"$(pkg-config --cflags --libs nearcpu-alloc)"
	"$CC" "$SOURCE/tests/dropin/own.c" -o "$program" "${flags[@]}" -pthread -ldl
	dynamic=$(readelf -d "$program")
	[[ $dynamic = *NEEDED*"[libnearcpu-alloc.so.${VERSION%.*}]"* ]] ||
		die "$program does not need libnearcpu-alloc.so.${VERSION%.*}"
	LD_LIBRARY_PATH=$prefix/$LIBDIR "$program"
	read -ra flags <<<"$(pkg-config --static --cflags --libs nearcpu-alloc)"
	"$CC" "$SOURCE/tests/dropin/own.c" -o "${program}_static" -static "${flags[@]}" -pthread
	"${program}_static"
	read -ra flags <<<"$(pkg-config --static --cflags --libs nearcpu-malloc nearcpu-alloc)"
	"$CC" "$SOURCE/tests/dropin/own.c" -o "${program}_both" -static "${flags[@]}" -pthread
	"${program}_both" both
}

# need_rust COMMAND: skips the test without it, or if the compiler is too old.
need_rust() {
	local version
	command -v "$1" >/dev/null || skip "no $1"
	version=$(rustc --version)
	[[ $version =~ ^rustc\ 1\.(8[7-9]|9[0-9]|[1-9][0-9][0-9])\. ]] || skip "$version: too old"
}

# examples/rust, with the shared libraries and with the archives. It depends on no crates.
rust() {
	local dir=$STAGE/rust program=$STAGE/rust/target/release/near-example
	need_rust cargo
	rm -rf "$dir"
	cp -r "$SOURCE/examples/rust" "$dir"
	for NEARCPU_STATIC in 0 1; do
		export NEARCPU_STATIC
		(cd "$dir" && cargo build --quiet --offline --release)
		for conf in slot:auto slot:cpu rseq:off; do
			NEAR_CONF=$conf LD_LIBRARY_PATH=$prefix/$LIBDIR "$program"
		done
		GLIBC_TUNABLES=glibc.pthread.rseq=0 LD_LIBRARY_PATH=$prefix/$LIBDIR "$program"
		[[ ! -x $prefix/bin/nearcpu ]] || "$prefix/bin/nearcpu" check "$program"
	done
}

# inlined: near_abi.rs of that program, and the functions of libnearcpu-ffi, under torture.
inlined() {
	local dir=$STAGE/inlined flags
	need_rust rustc
	rm -rf "$dir"
	mkdir "$dir"
	cat >"$dir/lib.rs" <<-END
		#[path = "$SOURCE/examples/rust/src/near_abi.rs"]
		mod near_abi;
		#[no_mangle]
		unsafe extern "C" fn inlined_add(p: near_abi::Object, n: i64) {
			near_abi::counter_add(p, n)
		}
	END
	rustc --crate-type staticlib -C opt-level=2 -C panic=abort "$dir/lib.rs" \
		-o "$dir/libinlined.a"
	read -ra flags <<<"$(pkg-config --static --cflags --libs nearcpu-torture nearcpu-ffi)"
	"$CC" -O2 "$here/inlined.c" -o "$dir/inlined" "$dir/libinlined.a" -Wl,-Bstatic \
		"${flags[@]}" -Wl,-Bdynamic -lgcc_s
	"$dir/inlined"
	NEAR_CONF=slot:cpu "$dir/inlined"
}

# Where go is found: its packages are large: the matrix alone installs them.
go_program() {
	local dir=$STAGE/go_ffi
	PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin
	command -v go >/dev/null || skip "no go"
	rm -rf "$dir"
	cp -r "$here/go_ffi" "$dir"
	export GO111MODULE=off GOFLAGS='' GOCACHE=$STAGE/cgo-cache CGO_ENABLED=1
	(cd "$dir" && go build -o program main.go)
	LD_LIBRARY_PATH=$prefix/$LIBDIR "$dir/program"
	(cd "$dir" && sed -i 's/pkg-config: /&--static /' main.go &&
		go build -ldflags '-extldflags -static' -o program_static main.go)
	"$dir/program_static"
}

case ${1:-} in
versions | alloc | rust | inlined) "$1" ;;
go) go_program ;;
*) die "usage: ffi.sh TEST" ;;
esac
