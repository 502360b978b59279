# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of the scripts in lab/packages: source packages of the tree, and their builds.

# source_package FOLDER [SUFFIX]: FOLDER receives the archive of a release, and what
# dpkg-buildpackage takes, unpacked. SUFFIX is appended to the version.
source_package() {
	local tree
	tree=$1/nearcpu-$(version)
	rm -rf "$1"
	copy_sources "$tree"
	tar -C "$1" --exclude="nearcpu-$(version)/debian" --sort=name --owner=0 --group=0 \
		--numeric-owner --mtime=@0 -czf "$1/nearcpu_$(version).orig.tar.gz" \
		"nearcpu-$(version)"
	[[ ! ${2:-} ]] || sed -i "1s/)/$2)/" "$tree/debian/changelog"
}

# build_root ROOT FOLDER RELEASE: a new root with build-essential and the Build-Depends alone.
build_root() {
	new_root "$1" "$3"
	cp -r "$2"/nearcpu-*/debian "$1/tmp/debian"
	in_root "$1" bash -c 'apt-get -qq update && cd /tmp && apt-get -y -qq build-dep ./ &&
		apt-get clean && rm -r /tmp/debian && useradd --create-home builder'
}

# build_packages ROOT FOLDER: as a user without privileges, without a network. The packages are in
# FOLDER, next to what they were made of.
build_packages() {
	rm -rf "$1/home/builder/work"
	cp -r "$2" "$1/home/builder/work"
	in_root "$1" --offline bash -c 'chown -R builder: /home/builder/work &&
		cd /home/builder/work/nearcpu-*/ &&
		runuser -u builder -- env HOME=/nonexistent dpkg-buildpackage -us -uc'
	find "$1/home/builder/work" -maxdepth 1 -type f -exec cp -t "$2" {} +
}

# find_debs: DEBS is the folder with the packages, which lab/packages/debian.sh has left, or makes
# now if what they are made of has changed.
# shellcheck disable=SC2185
find_debs() {
	local folder=$PWD/build/packages/debian
	DEBS=$folder/built
	[[ -d $DEBS && ! $(git ls-files -z -co --exclude-standard -- . ':!lab' ':!tests' |
		find -files0-from - -newer "$(echo "$DEBS"/nearcpu-*/)" 2>/dev/null) ]] ||
		DEB_BUILD_OPTIONS=nocheck bash lab/packages/debian.sh "$folder"
}
