#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: rpm.sh FOLDER
# The packages of packaging/rpm/nearcpu.spec: built with their tests from the tarball of a release,
# checked by rpmlint, compared with what CMake installs and with Debian's packages, and used from a
# folder into which they are installed. --nodeps, as the machine's packages are Debian's.
# Packages: cpio g++ libcapstone-dev libck-dev libcmocka-dev rpm rpmlint scdoc
set -euo pipefail
. lab/packages/common.sh

work=$1
rm -rf "$work"
mkdir -p "$work"/top/SOURCES
make_tarball "$work/release"
version=$(version)
export HOME=$work # no configuration of a user
unset CFLAGS CXXFLAGS LDFLAGS DESTDIR
cd "$work"
cp release/build/dist/*.tar.gz top/SOURCES
rpmbuild=(rpmbuild --nodeps -D "_topdir $work/top" release/packaging/rpm/nearcpu.spec)

[[ $(rpmspec -q --srpm --qf '%{version}' release/packaging/rpm/nearcpu.spec) = "$version" ]] ||
	fail "the version of nearcpu.spec is not $version"
options() { grep -oh 'NEAR_WITH_[A-Z]*=[A-Z]*' "$1" | sort -u; }
diff <(options release/debian/rules) <(options release/packaging/rpm/nearcpu.spec) ||
	fail "debian/rules has other options"
"${rpmbuild[@]}" -ba
rpmlint -c release/packaging/rpm/rpmlint.toml top/RPMS/*/*.rpm top/SRPMS/*.rpm \
	release/packaging/rpm/nearcpu.spec | tee rpmlint.log
grep ' 0 errors, 0 warnings,' rpmlint.log || fail "rpmlint found something"

# What the packages provide is theirs: not the libatomic.so.1 of GCC.
! rpm -qp --provides top/RPMS/*/*.rpm | grep libatomic || fail "a package provides libatomic"
rpm -qp --provides top/RPMS/*/*.rpm | grep -F "libnearcpu.so.${version%.*}(NEARCPU_${version%.*})"

# Each file that CMake installs is in one package, and no other is, but for the licence and links
# that rpm makes.
list() {
	rpm -qp --qf '[%{FILEMODES:perms} %{FILENAMES}\n]' "$@" |
		sed -E '/^d/d; s/^[^ ]* //; s|(/man/.*)\.gz$|\1|' |
		grep -vE '^/usr/(share/licenses|lib/.build-id)/' | sort
}
tar -xzf top/SOURCES/*.tar.gz
cmake -S "nearcpu-$version" -B plain -DCMAKE_BUILD_TYPE=None -DCMAKE_INSTALL_PREFIX=/usr \
	-DCMAKE_INSTALL_LIBDIR=lib64 -DCMAKE_INSTALL_DOCDIR=share/doc/nearcpu -DNEAR_TESTS=OFF
cmake --build plain -j "$(nproc)"
DESTDIR=$work/plain.root cmake --install plain >install.log
(cd plain.root && find . ! -type d | sed 's/^\.//') | sort >installed
list top/RPMS/*/*.rpm >packaged
diff installed packaged || fail "CMake installs other files than the packages have"

# The split is that of debian/: each .install, its patterns with our folders, as the package here.
# -devel and -static are one package there.
same_as_debian() {
	local debian=$1 pattern rpm
	shift
	while read -r pattern _; do
		pattern=${pattern/usr\/lib\/\*/usr\/lib64}
		pattern=${pattern/share\/doc\/libnearcpu-doc/share\/doc\/nearcpu}
		# shellcheck disable=SC2086
		(cd plain.root && find $pattern ! -type d | sed 's|^|/|')
	done <"release/debian/$debian.install" | sort -u >debian.list
	for rpm; do
		list top/RPMS/*/"$rpm-$version"-*.rpm
	done | sort >rpm.list
	diff debian.list rpm.list || fail "$* has other files than $debian"
}
so=${version%.*}
same_as_debian nearcpu nearcpu
same_as_debian nearcpu-bench nearcpu-bench
same_as_debian "libnearcpu$so" nearcpu-libs
for part in atomic ffi malloc torture; do
	same_as_debian "libnearcpu-$part$so" "nearcpu-$part"
done
same_as_debian libnearcpu-doc nearcpu-doc
same_as_debian libnearcpu-dev nearcpu-devel nearcpu-static

# Installed into a folder: rpm knows the order and the links; the command and -devel are used there.
mkdir root
rpm=(rpm --root "$work/root" --dbpath /var/lib/rpm)
"${rpm[@]}" --initdb
"${rpm[@]}" --nodeps --noscripts --force-debian -i top/RPMS/*/*.rpm
"${rpm[@]}" -V --nodeps -a
root=$work/root/usr
export LD_LIBRARY_PATH=$root/lib64 PKG_CONFIG_SYSROOT_DIR=$work/root
export PKG_CONFIG_LIBDIR=$root/lib64/pkgconfig
programs=release/packaging/conan/test_package
for name in structures:nearcpu malloc:nearcpu-malloc own:nearcpu-alloc atomic:nearcpu-atomic \
	ffi:nearcpu-ffi torture:nearcpu-torture; do
	# shellcheck disable=SC2046
	cc "$programs/${name%:*}.c" -o "${name%:*}" \
		$(pkg-config --cflags --libs nearcpu "${name#*:}")
	"./${name%:*}"
done
# shellcheck disable=SC2046
c++ "$programs/structures.cc" -o archive -static $(pkg-config --static --cflags --libs nearcpu)
env -u LD_LIBRARY_PATH ./archive
"$root/bin/nearcpu" info
"$root/bin/nearcpu" check "$root"/lib64/libnearcpu*.so
"$root/bin/nearcpu" run true
"$root/bin/nearcpu" bench --help
LD_PRELOAD=$root/lib64/nearcpu/libnearcpu-malloc.so NEAR_CONF=malloc_stats:$PWD/stats \
	ls / >listing
[[ -s stats ]] || fail "the preloaded malloc did not write its statistics"
"${rpm[@]}" -qa | xargs "${rpm[@]}" --noscripts --force-debian -e
[[ ! $(find "$root" ! -type d) ]] || fail "files stay after the packages are removed"
