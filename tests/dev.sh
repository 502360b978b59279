#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: dev.sh [SOURCE]
# The script ./dev, in a directory of its own, with commands in the place of cmake, apt-get and
# others that record how they were called.
set -euo pipefail
source=$(cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}" && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$source/dev" "$source/CMakePresets.json" "$dir"
mkdir -p "$dir/bin" "$dir/lab" "$dir/build/release"
cp "$source"/lab/*.py "$source/lab/list" "$dir/lab"

# stub NAME [COMMAND]: notes each call, then does this.
stub() {
	printf '#!/bin/sh\necho "%s $*" >>"%s/calls"\n%s\n' "$1" "$dir" "${2:-}" >"$dir/bin/$1"
	chmod +x "$dir/bin/$1"
}
for name in apt-get apt-cache sudo cargo cmake ctest ninja clang-format; do
	stub "$name"
done
# shellcheck disable=SC2016 # of the stub
stub dpkg-query 'for p; do echo "installed $p"; done'
export PATH=$dir/bin:$PATH
unset DESTDIR

wrong=0
wrong() {
	echo "$*"
	wrong=1
}

# Each command says at once what it does.
for command in setup build test bench fmt lint docs install lab "lab stress" clean; do
	# shellcheck disable=SC2086 # of two words
	for arguments in "$command --help" "$command -h" "$command --nonsense --help"; do
		[[ $command != lab* || $arguments = *"b --help" ]] || continue
		: >"$dir/calls"
		text=$("$dir/dev" $arguments 2>&1 </dev/null) ||
			wrong "./dev $arguments: exit status $?: $text"
		[[ $text = usage:* && $text = *" ${command%% *}"* ]] ||
			wrong "./dev $arguments: $text"
		[[ ! -s $dir/calls ]] || wrong "./dev $arguments calls $(<"$dir/calls")"
	done
done
[[ -d $dir/build ]] || wrong "./dev clean --help cleans"

# installs LIST: what ./dev install says where the dynamic linker searches these directories.
installs() {
	stub ldconfig "[ \"\$1\" != -v ] ||
		printf '%s: (from <builtin>:0)\\n' $1"
	: >"$dir/calls"
	echo "/some/where/lib/libnearcpu.so" >"$dir/build/release/install_manifest.txt"
	"$dir/dev" install --prefix /some/where 2>&1
}
text=$(installs "/usr/lib /some/where/lib")
if ((EUID == 0)); then
	grep -qx 'ldconfig ' "$dir/calls" || wrong "./dev install does not call ldconfig"
	[[ -z $text ]] || wrong "./dev install: $text"
else
	[[ $text = *"as root: ldconfig"* ]] || wrong "./dev install does not name ldconfig: $text"
fi
text=$(installs "/usr/lib /some/where/lib/other")
[[ $text = *LD_LIBRARY_PATH=/some/where/lib,* ]] || wrong "./dev install: $text"
text=$(DESTDIR=/stage installs "/usr/lib /some/where/lib")
! grep -q ldconfig "$dir/calls" || wrong "./dev install with DESTDIR calls ldconfig"
((wrong == 0))
