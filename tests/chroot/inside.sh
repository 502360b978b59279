#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Part of chroot.sh: in the root, configures and builds /src in /build as Debian's debhelper does,
# and runs the label package on one CPU.
set -euo pipefail
cd /build
if [[ ${1:-} != refused ]]; then
	cc -o deny /src/tests/chroot/deny.c
	exec ./deny bash "${BASH_SOURCE[0]}" refused
fi

# What chroot.sh states.
[[ ! -e /dev/shm && ! -e /sys/devices && ! -e $HOME && ! -w /etc && ! -w /src ]]
[[ $(grep -c : /proc/net/dev) = 1 ]]
has_cxx=
if g++ --version >/dev/null 2>&1; then has_cxx=yes; fi
cpu=$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)
echo "as $(id -un), g++: ${has_cxx:-no}, on ${cpu:-some CPU}"

# run_quietly LOG COMMAND...
run_quietly() {
	"${@:2}" >"$1" 2>&1 || { tail -n 40 "$1" && echo "failed: ${*:2}" && exit 1; }
}

configure() {
	run_quietly configure.log cmake -S /src -B "$@" -G "Unix Makefiles" \
		-DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_BUILD_TYPE=None \
		-DCMAKE_INSTALL_SYSCONFDIR=/etc -DCMAKE_INSTALL_LOCALSTATEDIR=/var \
		-DCMAKE_EXPORT_NO_PACKAGE_REGISTRY=ON -DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF \
		-DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON \
		-DFETCHCONTENT_FULLY_DISCONNECTED=ON -DCMAKE_INSTALL_RUNSTATEDIR=/run \
		-DCMAKE_SKIP_INSTALL_ALL_DEPENDENCY=ON -DCMAKE_BUILD_RPATH_USE_ORIGIN=ON \
		-DCMAKE_VERBOSE_MAKEFILE=ON -DCMAKE_INSTALL_LIBDIR="lib/$(gcc -print-multiarch)"
}

build() {
	configure tree
	[[ $has_cxx ]] || configure bare -DNEAR_PYTHON=
	run_quietly build.log cmake --build tree --parallel "$(nproc)"
	run_quietly install.log env DESTDIR=/build/installed cmake --install tree
}

eval "$(dpkg-buildflags --export=sh)"
TIMEFORMAT="built in %R s on $(nproc) CPUs; CPU time %U s and %S s in the kernel"
time build
TIMEFORMAT="the label package: %R s on one CPU; CPU time %U s and %S s in the kernel"
cpu=$(taskset -cp $$ | sed 's/.*: //; s/[,-].*//')
time taskset -c "$cpu" ctest --test-dir tree -L '^package$' --no-tests=error --output-on-failure
