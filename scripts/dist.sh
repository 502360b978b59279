# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of ./dev: the tarball of a release.

# project_version: as CMakeLists.txt has it.
project_version() { sed -n 's/^ *VERSION \([0-9.]*\)$/\1/p' CMakeLists.txt | head -n 1; }

# What a release needs besides the tests: it is a commit, and CHANGELOG.md has its version.
check_release() {
	local state
	command -v git >/dev/null || fail "dist needs git"
	state=$(git status --porcelain) || fail "dist needs the git repository: $ROOT is none"
	[[ -z $state ]] ||
		fail "dist packs the last commit, and these files differ from it:"$'\n'"$state"
	grep -q "^## $1 " CHANGELOG.md || fail "CHANGELOG.md has no section of version $1"
}

# The same commit gives the same file, on any machine: the times are those of the commit.
cmd_dist() {
	local version name
	no_arguments dist "$@"
	version=$(project_version)
	check_release "$version"
	name=nearcpu-$version
	mkdir -p build/dist
	git archive --format=tar --prefix="$name/" HEAD | gzip -9n >"build/dist/$name.tar.gz.new"
	mv "build/dist/$name.tar.gz.new" "build/dist/$name.tar.gz"
	(cd build/dist && sha256sum "$name.tar.gz" | tee "$name.tar.gz.sha256")
	sed -e "s/@VERSION@/$version/" -e "s/@SHA256@/$(cut -d ' ' -f 1 \
		"build/dist/$name.tar.gz.sha256")/" packaging/meson/nearcpu.wrap.in \
		>build/dist/nearcpu.wrap
	say "build/dist/$name.tar.gz, of commit $(git rev-parse --short HEAD)"
}
