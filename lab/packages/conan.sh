#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: conan.sh FOLDER
# The recipe of Conan, by Conan of PyPI: creates the package, static and shared, by two compilers,
# with the command; links programs with it by CMake and by pkg-config; tries what it must refuse.
# Packages: clang g++ libcapstone-dev libelf-dev libjansson-dev pkg-config python3-venv zlib1g-dev
set -euo pipefail
. lab/packages/common.sh

work=$1
rm -rf "$work"
mkdir -p "$work"
copy_sources "$work/tree"
cd "$work"
python3 -m venv venv
venv/bin/pip install -q 'conan>=2.19,<3' || skip "conan cannot be installed from PyPI"
export CONAN_HOME=$work/home PATH=$work/venv/bin:$PATH
unset CC CXX CFLAGS CXXFLAGS LDFLAGS PKG_CONFIG_PATH PKG_CONFIG_LIBDIR
CC=gcc CXX=g++ conan profile detect --name gcc
CC=clang CXX=clang++ conan profile detect --name clang
sed -i 's/^compiler.libcxx=.*/compiler.libcxx=libstdc++11/' home/profiles/clang
cat >>home/profiles/clang <<'END'
[conf]
tools.build:compiler_executables={"c": "clang", "cpp": "clang++"}
END
# The libraries of the command are the machine's, not those of an index.
cp home/profiles/gcc home/profiles/system
cat >>home/profiles/system <<'END'
[platform_requires]
jansson/2.14
elfutils/0.188
capstone/4.0.2
zlib/1.2.13
END

# create ARGUMENT...: as a user does, from the tree.
create() {
	say "== $*"
	conan create tree/packaging/conan --no-remote -pr:b gcc \
		-c tools.build:jobs="$(nproc)" "$@"
}

# folder_of ARGUMENT...: of the package in the cache.
folder_of() {
	conan install --requires="nearcpu/$version" --no-remote -pr:b gcc "$@" --format=json \
		2>/dev/null |
		python3 -c 'import json, sys
for node in json.load(sys.stdin)["graph"]["nodes"].values():
    if node.get("name") == "nearcpu":
        print(node["package_folder"])'
}

# refused TEXT ARGUMENT...: create must fail, and say why.
refused() {
	local text=$1
	shift
	! create "$@" >refused.log 2>&1 || fail "created with $*"
	grep -F "$text" refused.log || { cat refused.log && fail "no '$text' with $*"; }
}

# check_package FOLDER FILE: has the licence and the file, and nothing that names where it was made.
check_package() {
	[[ -s $1/licenses/LICENSE && -s $1/include/nearcpu/counter.h && -s $1/$2 ]] ||
		fail "$1 is not complete"
	[[ ! -e $1/lib/cmake && ! -e $1/lib/pkgconfig && ! -e $1/share/doc ]] ||
		fail "$1 has what Conan makes"
	! grep -rl -e "$work" "$1" --exclude-dir=metadata --exclude=conaninfo.txt \
		--exclude=conanmanifest.txt || fail "these files name a folder of the build"
}

# link_by_pkg_config SHARED: by the files that Conan writes.
# shellcheck disable=SC1090 # is one of them
link_by_pkg_config() {
	local out=pc.$1 source=tree/packaging/conan/test_package name
	conan install --requires="nearcpu/$version" --no-remote -pr:b gcc -pr gcc \
		-o "nearcpu/*:shared=$1" -g PkgConfigDeps -g VirtualRunEnv -of "$out"
	export PKG_CONFIG_LIBDIR=$work/$out
	for name in structures:nearcpu malloc:nearcpu-malloc own:nearcpu-alloc ffi:nearcpu-ffi \
		atomic:nearcpu-atomic; do
		# shellcheck disable=SC2046
		cc "$source/${name%:*}.c" -o "$out/${name%:*}" \
			$(pkg-config --cflags --libs "${name#*:}")
		(. "./$out/conanrun.sh" && "$out/${name%:*}")
	done
	# shellcheck disable=SC2046
	c++ "$source/structures.cc" -o "$out/cxx" $(pkg-config --cflags --libs nearcpu)
	(. "./$out/conanrun.sh" && "$out/cxx")
	unset PKG_CONFIG_LIBDIR
}

version=$(cd tree && version)
create -pr gcc -o shared=False
create -pr gcc -o shared=True
create -pr gcc -o shared=True -s build_type=Debug
create -pr clang -o shared=True
create -pr clang -o shared=False -s build_type=Debug
# CMake's targets are also those of the newer generator.
for shared in False True; do
	conan test tree/packaging/conan/test_package "nearcpu/$version" --no-remote -pr:b gcc \
		-pr gcc -o "nearcpu/*:shared=$shared" -c tools.cmake.cmakedeps:new=will_break_next
done
for form in False:lib/libnearcpu.a "True:lib/libnearcpu.so.$version"; do
	check_package "$(folder_of -pr gcc -o "nearcpu/*:shared=${form%:*}")" "${form#*:}"
	link_by_pkg_config "${form%:*}"
done

create -pr system -o tools=True
"$(folder_of -pr system -o 'nearcpu/*:tools=True')/bin/nearcpu" check \
	"$(folder_of -pr gcc -o 'nearcpu/*:shared=True')/lib/libnearcpu.so"

refused "for Linux alone, not Windows" -pr gcc -s os=Windows
refused "for Linux alone, not FreeBSD" -pr gcc -s os=FreeBSD
refused "gcc or clang, not intel-cc" -pr gcc -s compiler=intel-cc -s compiler.version=2021.4 \
	-s compiler.mode=icx
refused "is not a valid 'options.shared' value" -pr gcc -o shared=maybe
