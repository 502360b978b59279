#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: tarball.sh FOLDER
# The tarball of a release: two clones give the same one, it is built as in docs/packaging.md, and a
# program links with what it installs.
# Packages: git pkg-config
set -euo pipefail
. lab/packages/common.sh

work=$1
rm -rf "$work"
mkdir -p "$work"
make_tarball "$work/1"
git clone -q "$work/1" "$work/elsewhere"
"$work/elsewhere/dev" dist
cmp "$work"/{1,elsewhere}/build/dist/nearcpu-"$(version)".tar.gz
(cd "$work/1/build/dist" && sha256sum -c nearcpu-*.sha256)

tar -C "$work" -xzf "$work"/1/build/dist/nearcpu-*.tar.gz
cd "$work"/nearcpu-*/
cmake -B build/package -DCMAKE_BUILD_TYPE=None -DCMAKE_INSTALL_PREFIX=/usr -DNEAR_TESTS=OFF
cmake --build build/package -j "$(nproc)"
DESTDIR=$work/root cmake --install build/package >"$work/install.log"
export PKG_CONFIG_SYSROOT_DIR=$work/root
PKG_CONFIG_LIBDIR=$(dirname "$(find "$work/root" -name nearcpu.pc)")
export PKG_CONFIG_LIBDIR
# shellcheck disable=SC2046
cc examples/stack.c -o "$work/stack" $(pkg-config --static --cflags --libs nearcpu) -static
"$work/stack" | grep -x 'all freed, mostly reused'
