#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: run.sh install | package | pkgconfig_shared | pkgconfig_static | pkgconfig_archive |
#               symbols | malloc_page | libatomic | libatomic_static | flags | static_pie |
#               plugin | cgo | lto CC FLAG | embed HOW GENERATOR [CC FLAG]
# Builds a program against Nearcpu in one way and runs it. tests/consumer/CMakeLists.txt sets
# SOURCE, BUILD, STAGE, LIBDIR, VERSION, CMAKE, CC and CXX.
set -euo pipefail

prefix=$STAGE/moved
here=$SOURCE/tests/consumer
SOVERSION=${VERSION:?} # less the patch number, while the major version is 0
SOVERSION=${SOVERSION%.*}
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
	if grep -rl -e "$STAGE/prefix" -e "$SOURCE" "$prefix"; then
		die "these files name the directory they were made in"
	fi
	[[ ! -x $prefix/bin/nearcpu || -s $prefix/share/bash-completion/completions/nearcpu &&
		-s $prefix/share/zsh/site-functions/_nearcpu &&
		-s $prefix/share/fish/vendor_completions.d/nearcpu.fish ]] ||
		die "a shell's completions are missing"
	[[ -s $prefix/$LIBDIR/libnearcpu.a && -s $prefix/include/nearcpu/rseq.h &&
		-s $prefix/$LIBDIR/libnearcpu-torture.a && -s $prefix/$LIBDIR/libnearcpu-atomic.a &&
		-s $prefix/$LIBDIR/nearcpu/libatomic.a ]]
	[[ ! -e $prefix/$LIBDIR/libnearcpu-malloc.so ||
		$prefix/$LIBDIR/nearcpu/libnearcpu-malloc.so -ef \
		$prefix/$LIBDIR/libnearcpu-malloc.so ]] || die "LIBDIR/nearcpu is not complete"
}

skip() {
	echo "skipped: $*"
	exit 77
}

# clang also warns of every atomic object that needs a library.
warnings=(-Wall -Wextra -Werror -Wno-atomic-alignment)

# links COMMAND...: whether a compiler with its options makes a program at all.
links() {
	"$@" -O2 -x c - -o "$STAGE/links" <<<'int main(void) { return 0; }'
}

run_all() {
	local program

	for program in "$@"; do
		echo "+ $program"
		"$program"
	done
}

# check_programs DIR: runs those that were built there.
check_programs() {
	local dir=$1

	run_all "$dir"/c*_nearcpu "$dir"/c*_nearcpu_static "$dir"/c_torture \
		"$dir"/c_torture_static "$dir"/c_atomic "$dir"/c_atomic_static
	[[ ! -e $dir/c_ffi ]] || run_all "$dir"/c_ffi "$dir"/c_ffi_static "$dir"/c_alloc \
		"$dir"/c_alloc_static
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
	grep -qw near__atomic_locks <<<"$symbols" || die "$1 contains another libatomic"
	[[ -z $shown ]] || grep -qw 'u near__atomic_locks' <<<"$shown" ||
		die "$1 keeps the locks to itself"
}

# links_shared PROGRAM LIBRARY
links_shared() {
	readelf -d "$1" | grep -q "NEEDED.*\\[lib$2\\.so\\.${SOVERSION/./\\.}\\]"
}

# compile PROGRAM SOURCE PACKAGES FLAG...: with what pkg-config prints for the packages and FLAGs.
compile() {
	local program=$1 file=$2 packages flags

	read -ra packages <<<"$3"
	shift 3
	read -ra flags <<<"$(pkg-config "$@" --cflags --libs "${packages[@]}")"
	[[ $* = *--static* ]] && flags+=(-static)
	[[ $program = *_archive* ]] && flags=("${flags[@]/%-lnearcpu/-l:libnearcpu.a}") &&
		flags=("${flags[@]/%-lnearcpu-torture/-l:libnearcpu-torture.a}") &&
		flags=("${flags[@]/%-lnearcpu-atomic/-l:libnearcpu-atomic.a}")
	"$CC" "${warnings[@]}" "$file" -o "$program" "${flags[@]}"
}

# pkgconfig HOW FLAG...: the programs, with what pkg-config prints and FLAGs.
pkgconfig() {
	local how=$1 program=$STAGE/pkgconfig_$1

	shift
	pkg-config "--atleast-version=$VERSION" nearcpu nearcpu-torture
	compile "$program" "$here/main.c" nearcpu "$@"
	compile "${program}_torture" "$here/proof.c" "nearcpu-torture nearcpu" "$@"
	compile "${program}_atomic" "$here/atomic.c" nearcpu-atomic "$@"
	if [[ $how = shared ]]; then
		links_shared "$program" nearcpu ||
			die "$program does not need libnearcpu.so.$SOVERSION"
		links_shared "${program}_torture" nearcpu-torture ||
			die "${program}_torture does not need libnearcpu-torture.so.$SOVERSION"
		links_shared "${program}_atomic" nearcpu-atomic ||
			die "${program}_atomic does not need libnearcpu-atomic.so.$SOVERSION"
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
	grep -q "SONAME.*\\[lib$1\\.so\\.${SOVERSION/./\\.}\\]" <<<"$dynamic" || die "wrong SONAME"
	grep -q 'FLAGS_1.*NOW.*NODELETE' <<<"$dynamic" || die "not -z now -z nodelete"
	readelf -lW "$library" | grep -q GNU_RELRO || die "not linked with -z relro"
	if grep NEEDED <<<"$dynamic" |
		grep -vE '\[(libc|ld-linux[^]]*|libnearcpu)\.so\.[0-9.]+\]'; then
		die "$library needs more than libc and libnearcpu"
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
	hardened nearcpu-alloc
	hardened nearcpu-ffi
	[[ $(exported_by nearcpu-torture) = near_torture@@NEARCPU_TORTURE_$SOVERSION ]] ||
		die "libnearcpu-torture exports something else"
	exported=$(exported_by nearcpu)
	wrong=$(grep -vxE -e "near_[a-z][a-z0-9_]*@@NEARCPU_$SOVERSION" \
		-e "near__[a-z0-9_]*@@NEARCPU_PRIVATE_$SOVERSION" \
		-e near__first@@NEARCPU_PRIVATE -e vfork -e __vfork -e clone \
		<<<"$exported" || true)
	[[ -z $wrong ]] || die "exported by mistake or with the wrong version:"$'\n'"$wrong"
	grep -qxF "near_rseq_status@@NEARCPU_$SOVERSION" <<<"$exported" || die "no near_rseq_status"
	grep -qx vfork <<<"$exported" || die "vfork of ours is missing or has a version"
	grep -qx clone <<<"$exported" || die "clone of ours is missing or has a version"
	echo "$(wc -l <<<"$exported") symbols"
}

# libatomic [-static]: a program linked as always, by -latomic, from the directory that a
# distribution puts in its place.
libatomic() {
	local program=$STAGE/libatomic${1:-} dir dynamic linker listed

	dir=$(pkg-config --variable=libatomicdir nearcpu-atomic)
	"$CC" "${warnings[@]}" "$here/atomic.c" -o "$program" "$@" -L"$dir" -latomic
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

# What cgo takes from pkg-config without an order is a list; of it, these will do. The flags
# for programs with plugins export all of the state.
flags() {
	local flag flags symbol exported

	for packages in nearcpu nearcpu-alloc nearcpu-ffi nearcpu-malloc nearcpu-torture; do
		read -ra flags <<<"$(pkg-config --cflags --libs "$packages") \
			$(pkg-config --static --libs "$packages")"
		for flag in "${flags[@]}"; do
			[[ $flag =~ ^-([ILl][^@-].*|pthread)$ ]] ||
				die "$packages: cgo refuses $flag"
		done
	done
	exported="$(pkg-config --variable=export_flags nearcpu) "
	while read -r symbol; do
		[[ $exported = *"=$symbol "* ]] || die "export_flags do not export $symbol"
	done < <(nm "$prefix/$LIBDIR/libnearcpu.a" | awk '$2 == "u" { print $3 }')
}

# archives DIR COMMAND...: programs of our archives by a compiler with options, run.
archives() {
	local dir=$1 flags

	shift
	rm -rf "$dir"
	mkdir "$dir"
	read -ra flags <<<"$(pkg-config --static --cflags --libs nearcpu nearcpu-torture)"
	"$@" "$here/main.c" -o "$dir/c_nearcpu" "${flags[@]}"
	"$@" "$here/proof.c" -o "$dir/c_torture" "${flags[@]}"
	read -ra flags <<<"$(pkg-config --static --cflags --libs nearcpu-malloc)"
	"$@" "$here/main.c" -o "$dir/c_malloc" "${flags[@]}"
	read -ra flags <<<"$(pkg-config --static --cflags --libs nearcpu-atomic)"
	"$@" "$here/atomic.c" -o "$dir/c_atomic" "${flags[@]}"
	is_atomic "$dir/c_atomic"
	run_all "$dir"/c_*
}

# By the compiler, and by CMake.
static_pie() {
	local dir=$STAGE/static_pie

	links "$CC" -static-pie -fPIE || skip "$CC has no -static-pie here"
	archives "$dir" "$CC" -O2 -static-pie -fPIE
	"$CMAKE" -G Ninja -B "$dir/cmake" -S "$here/package" -DCMAKE_PREFIX_PATH="$prefix" \
		-DCMAKE_EXE_LINKER_FLAGS=-static-pie -DCMAKE_POSITION_INDEPENDENT_CODE=ON
	"$CMAKE" --build "$dir/cmake" --target c_nearcpu_static c_atomic_static
	run_all "$dir/cmake/c_nearcpu_static" "$dir/cmake/c_atomic_static"
}

# lto CC FLAG: a program that is optimized at link time, with our archives.
lto() {
	links "$1" "$2" || skip "$1 $2 does not link here"
	archives "$STAGE/lto_$1$2" "$1" -O2 "$2" -static
}

# A plugin linked with the library, and one that contains it; so does one of the programs.
plugin() {
	local dir=$STAGE/plugin flags archive

	rm -rf "$dir"
	mkdir "$dir"
	read -ra flags <<<"$(pkg-config --cflags --libs nearcpu)"
	archive=("${flags[@]/%-lnearcpu/-l:libnearcpu.a}")
	"$CC" -shared -fPIC "$here/plugin/plugin.c" -o "$dir/shared.so" "${flags[@]}"
	"$CC" -shared -fPIC "$here/plugin/plugin.c" -o "$dir/contains.so" "${archive[@]}"
	links_shared "$dir/shared.so" nearcpu ||
		die "the plugin does not need libnearcpu.so.$SOVERSION"
	"$CC" "$here/plugin/host.c" -o "$dir/host" -ldl
	read -ra flags <<<"$(pkg-config --variable=export_flags nearcpu)"
	"$CC" "$here/plugin/host.c" -o "$dir/exporter" -ldl -u near_counter_init \
		"${archive[@]}" "${flags[@]}"
	nm -D "$dir/exporter" | grep -q 'u near__percpu_[0-9]' || die "export_flags export nothing"
	for host in host exporter; do
		for plugin in shared contains; do
			echo "+ $host $plugin"
			LD_LIBRARY_PATH=$prefix/$LIBDIR "$dir/$host" "$dir/$plugin.so"
		done
	done
}

# Where go is found: its packages are large: the matrix alone installs them.
cgo() {
	local dir=$STAGE/cgo

	PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin
	command -v go >/dev/null || skip "no go"
	rm -rf "$dir"
	cp -r "$here/go" "$dir"
	export GO111MODULE=off GOFLAGS='' GOCACHE=$STAGE/cgo-cache CGO_ENABLED=1
	unset CGO_LDFLAGS_ALLOW CGO_CFLAGS_ALLOW
	(cd "$dir" && go build -o program main.go)
	LD_LIBRARY_PATH=$prefix/$LIBDIR run_all "$dir/program"
	(cd "$dir" && sed -i 's/pkg-config: /&--static /' main.go &&
		go build -ldflags '-extldflags -static' -o program_static main.go)
	run_all "$dir/program_static"
}

# embed HOW GENERATOR [CC FLAG]: the sources in a user's build. With Make, a custom command has to
# list its inputs.
embed() {
	local dir=$STAGE/embed_$1_${2// /_}${3:-}${4:-}

	[[ $# -le 2 ]] || export CC=$3
	[[ $# -le 2 ]] || links "$3" "$4" || skip "$3 $4 does not link here"
	[[ $2 != *Make* ]] || command -v make >/dev/null || skip "no make"
	rm -rf "$dir"
	"$CMAKE" -G "$2" -B "$dir" -S "$here/embed" -DHOW="$1" -DNEARCPU_SOURCE="$SOURCE" \
		-DCMAKE_C_FLAGS="${4:-}"
	"$CMAKE" --build "$dir" --parallel 2 --target nearcpu-malloc_static
	"$CMAKE" --build "$dir" --parallel 2
	check_programs "$dir"
}

# malloc_page: the commands of near_malloc(3), as they are; each program runs.
malloc_page() {
	local dir=$STAGE/malloc_page commands

	rm -rf "$dir"
	mkdir "$dir"
	cp "$here/malloc.c" "$dir/prog.c"
	cp "$here/malloc.c" "$dir/prog.cc"
	cd "$dir"
	commands=$(awk '/^# / { here = $2 == "LINKING" }
		/^\140/ { inside = !inside; next }
		here && inside' "$SOURCE/man/near_malloc.3.scd")
	[[ $(grep -c '^c[c+]' <<<"$commands") -ge 4 ]] || die "the page shows no commands"
	cc() {
		"$CC" "$@" && LD_LIBRARY_PATH=$prefix/$LIBDIR run_all ./a.out
	}
	c++() {
		"$CXX" "$@" && LD_LIBRARY_PATH=$prefix/$LIBDIR run_all ./a.out
	}
	echo "$commands"
	eval "$commands"
}

case ${1:-} in
install) install_prefix ;;
package)
	rm -rf "$STAGE/package"
	"$CMAKE" -G Ninja -B "$STAGE/package" -S "$here/package" -DCMAKE_PREFIX_PATH="$prefix"
	"$CMAKE" --build "$STAGE/package"
	check_programs "$STAGE/package"
	;;
pkgconfig_shared) pkgconfig shared ;;
pkgconfig_static) pkgconfig static --static ;;
pkgconfig_archive) pkgconfig archive --static ;;
symbols) symbols ;;
malloc_page) malloc_page ;;
libatomic) libatomic ;;
libatomic_static) libatomic -static ;;
flags | static_pie | plugin | cgo) "$1" ;;
lto | embed) "$@" ;;
*) die "usage: run.sh TEST" ;;
esac
