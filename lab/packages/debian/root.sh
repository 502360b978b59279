# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of the scripts in lab/packages that need a clean Debian: roots made by mmdebstrap, below
# build/packages/roots, and commands that run in them, in namespaces that end with them.

ROOTS=$PWD/build/packages/roots
ENTER=$PWD/lab/packages/debian/enter.sh

need_roots() {
	((EUID == 0)) || skip "only root can make and enter a root"
	unshare --mount --net --ipc --pid --fork true 2>/dev/null || skip "no namespaces here"
	[[ -f /etc/debian_version ]] || skip "not a Debian"
}

# sources RELEASE: the archives of this machine's release, as those of another one.
sources() {
	python3 -B - lab "$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)" "$@" <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import sources
own, release, architecture = sys.argv[2:]
entries = []
for each in sources.read_machine():
    suites = [release + suite[len(own):] for suite in each.suites if suite.partition("-")[0] == own]
    if suites and "main" in each.components:
        entries.append((each, suites, [architecture]))
print(sources.write_deb822(entries))
END
}

# base_tar RELEASE [ARCHITECTURE]: BASE is a tarball of a root, made if it is older than a day.
# It takes packages as apt does here.
base_tar() {
	local release=$1 architecture=${2:-$(dpkg --print-architecture)} tar
	tar=$ROOTS/$release-$architecture.tar
	mkdir -p "$ROOTS"
	if [[ ! $(find "$tar" -mmin -1440 2>/dev/null) ]]; then
		sources "$release" "$architecture" >"$tar.sources"
		grep -q '^URIs' "$tar.sources" || skip "apt knows no archive of '$release'"
		{
			apt-config dump |
				grep -E '^Acquire::(https?::|Check-|Languages|Retries)' || true
			echo 'APT::Install-Recommends "false";'
		} >"$tar.apt"
		mmdebstrap --quiet --mode=root --format=tar --variant=minbase \
			--architectures="$architecture" --aptopt="$tar.apt" "$release" \
			"$tar.$$" - <"$tar.sources" >&2 || skip "mmdebstrap made no root"
		mv "$tar.$$" "$tar"
	fi
	BASE=$tar
}

# new_root FOLDER RELEASE: whose packages start no services.
new_root() {
	base_tar "$2"
	remove_root "$1"
	mkdir -p "$1"
	tar -C "$1" --numeric-owner -xpf "$BASE"
	rm -f "$1/etc/resolv.conf"
	printf '#!/bin/sh\nexit 101\n' >"$1/usr/sbin/policy-rc.d"
	chmod +x "$1/usr/sbin/policy-rc.d"
}

# remove_root FOLDER: but not what a mount, left by others, would lead to.
remove_root() {
	rm -rf --one-file-system "$1"
}

# with_root ROOT [--offline] COMMAND...: runs it with what ROOT needs mounted below it. What is left
# when the command ends, processes and mounts, ends with it.
with_root() {
	local options=()
	if [[ $2 = --offline ]]; then
		options=(--net)
		set -- "$1" "${@:3}"
	fi
	unshare --mount --ipc --pid --fork --kill-child "${options[@]}" bash "$ENTER" "$@"
}

# in_root ROOT [--offline] COMMAND...: of the root, as its superuser.
in_root() {
	local root=$1 options=()
	if [[ $2 = --offline ]]; then
		options=(--offline)
		shift
	fi
	with_root "$root" "${options[@]}" chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin \
		HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
		DEB_BUILD_OPTIONS="${DEB_BUILD_OPTIONS:-}" "${@:2}" </dev/null
}
