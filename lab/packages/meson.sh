#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: meson.sh FOLDER
# A project that Meson builds, with Nearcpu by the wrap of ./dev dist and its tarball, and with an
# installed Nearcpu. Meson is PyPI's: the newest, and the oldest that meson.build allows.
# Packages: cmake g++ gcc-aarch64-linux-gnu git ninja-build pkg-config python3-venv qemu-user
set -euo pipefail
. lab/packages/common.sh

work=$1
rm -rf "$work"
mkdir -p "$work/consumer/subprojects/packagefiles"
make_tarball "$work/release"
version=$(version)
oldest=$(sed -n "s/.*meson_version: '>=\([0-9.]*\)'.*/\1/p" meson.build)
programs=$PWD/packaging/conan/test_package
cd "$work"
for meson in meson "meson==$oldest.*"; do
	python3 -m venv "venv-$meson"
	"venv-$meson/bin/pip" install -q "$meson" || skip "Meson cannot be installed from PyPI"
done
new=venv-meson/bin/meson
old="venv-meson==$oldest.*/bin/meson"
unset CC CXX CFLAGS CXXFLAGS LDFLAGS DESTDIR PKG_CONFIG_PATH

cp "$programs"/*.c "$programs"/*.cc consumer
cp release/build/dist/nearcpu.wrap consumer/subprojects
cp release/build/dist/nearcpu-*.tar.gz consumer/subprojects/packagefiles
cat >consumer/meson.build <<'END'
project('consumer', 'c', 'cpp', default_options: ['c_std=gnu11', 'cpp_std=c++17'])
foreach source, parts : {'structures.c': ['nearcpu'], 'structures.cc': ['nearcpu'],
    'malloc.c': ['nearcpu-malloc'], 'malloc.cc': ['nearcpu-malloc'], 'own.c': ['nearcpu-alloc'],
    'atomic.c': ['nearcpu-atomic'], 'ffi.c': ['nearcpu-ffi'],
    'torture.c': ['nearcpu-torture', 'nearcpu']}
  libraries = []
  foreach part : parts
    libraries += dependency(part, version: '>=0.2')
  endforeach
  test(source, executable(source.underscorify(), source, dependencies: libraries, install: true))
endforeach
END

# build NAME MESON ARGUMENT...: configures, builds and runs the consumer.
build() {
	local name=$1 meson=$2
	shift 2
	say "== $name: $*"
	rm -rf consumer/subprojects/nearcpu-"$version"
	"$meson" setup "$name" consumer --wrap-mode=default "$@"
	"$meson" test -C "$name" --print-errorlogs
}

# runs_without COUNT FOLDER: the installed programs, of which COUNT link a shared library of ours.
runs_without() {
	local program linked=0
	for program in "$2"/bin/*_c "$2"/bin/*_cc; do
		LD_LIBRARY_PATH=$2/lib "$program"
		! readelf -d "$program" | grep -q 'NEEDED.*libnearcpu' || linked=$((linked + 1))
	done
	((linked == $1)) || fail "$linked of the programs in $2 link a shared library, not $1"
}

for form in static:0 shared:8; do
	build "${form%:*}" "$new" --default-library="${form%:*}" --prefix="$PWD/p-${form%:*}" \
		--libdir=lib --buildtype=debugoptimized
	"$new" install -C "${form%:*}" >install.log
	runs_without "${form#*:}" "p-${form%:*}"
	# A second build has nothing to do; a changed source is compiled.
	ninja -C "${form%:*}" | grep -x 'ninja: no work to do.'
	touch "consumer/subprojects/nearcpu-$version/src/percpu/counter.c"
	ninja -C "${form%:*}" >again.log
	grep 'percpu/counter.c.o' again.log
done
build oldest "$old" --default-library=both --buildtype=release
CC=clang CXX=clang++ build clang "$new" --default-library=static --buildtype=debug -Db_lto=true
CC="gcc -O1" build flags "$new" --default-library=shared --buildtype=plain

cat >aarch64.ini <<'END'
[binaries]
c = 'aarch64-linux-gnu-gcc'
cpp = 'aarch64-linux-gnu-g++'
exe_wrapper = ['qemu-aarch64', '-L', '/usr/aarch64-linux-gnu']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
END
build aarch64 "$new" --cross-file aarch64.ini --default-library=static

# A published wrap has an address: the file is in the cache that Meson fills. A changed one is
# refused.
sed -i 's|^\[wrap-file\]|&\nsource_url = https://nearcpu.invalid/nearcpu.tar.gz|' \
	consumer/subprojects/nearcpu.wrap
mv consumer/subprojects/packagefiles consumer/subprojects/packagecache
build published "$new" --default-library=static
echo >>"consumer/subprojects/packagecache/nearcpu-$version.tar.gz"
! build wrong "$new" >wrong.log 2>&1 || fail "Meson took a tarball with another checksum"
grep -i 'incorrect hash' wrong.log

# What is installed comes first; the wrap is not used.
PKG_CONFIG_PATH=$PWD/p-shared/lib/pkgconfig LD_LIBRARY_PATH=$PWD/p-shared/lib \
	build installed "$new" --wrap-mode=nofallback
PKG_CONFIG_PATH=$PWD/p-static/lib/pkgconfig build archive "$new" --wrap-mode=nofallback \
	--prefer-static
