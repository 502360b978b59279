# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of the scripts in this folder, which run in the root of the tree.

say() { printf '%s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }

# skip REASON: what the machine lacks.
skip() { echo "$*"; exit 77; }

# version: of the tree.
version() { sed -n 's/^ *VERSION \([0-9.]*\)$/\1/p' CMakeLists.txt | head -n 1; }

# copy_sources FOLDER: what a release would contain if the working tree were committed.
copy_sources() {
	mkdir -p "$1"
	git ls-files -z -co --exclude-standard --deduplicate |
		while IFS= read -r -d '' file; do
			[[ ! -e $file && ! -L $file ]] || printf '%s\0' "$file"
		done | tar --null -T - -cf - | tar -C "$1" -xf -
}

# make_tarball FOLDER: the tarball of a release, and what else ./dev dist makes, in
# FOLDER/build/dist.
make_tarball() {
	copy_sources "$1"
	(
		cd "$1" || exit
		git init -q
		git add -A
		git -c user.name=nobody -c user.email=nobody@localhost commit -q -m tree
	)
	"$1/dev" dist
}
