#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: abi.sh LIBRARY SONAME [OTHER...]
# LIBRARY exports libatomic's 97 symbols with their versions, and else only private state;
# it needs nothing but the C library. The first OTHER that exists, GCC's own, exports the same.
# Without one: exit status 77.
set -euo pipefail
export LC_ALL=C
library=$1 soname=$2
shift 2
wrong=0

fail() {
	echo "$library: $*"
	wrong=1
}

# symbols FILE: name@version of what it defines for others, and what is neither private nor a
# function.
symbols() {
	readelf --wide --dyn-syms "$1" | awk '
		$7 != "UND" && $7 != "ABS" && $5 ~ /^(GLOBAL|WEAK|UNIQUE)$/ && $8 != "" {
			sub(/@@/, "@", $8)
			print $8 ($4 ~ /FUNC/ || $8 ~ /^near__/ ? "" : " " $4) }' | sort
}

# What there must be, from the names of the documentation.
wanted() {
	local n op
	for n in 1 2 4 8 16; do
		for op in load store exchange compare_exchange test_and_set; do
			echo "__atomic_${op}_$n@LIBATOMIC_1.0"
		done
		for op in add sub and or xor nand; do
			echo "__atomic_fetch_${op}_$n@LIBATOMIC_1.0"
			echo "__atomic_${op}_fetch_$n@LIBATOMIC_1.0"
		done
	done
	for op in load store exchange compare_exchange is_lock_free; do
		echo "__atomic_$op@LIBATOMIC_1.0"
	done
	echo __atomic_feraiseexcept@LIBATOMIC_1.1
	for op in thread_fence signal_fence flag_test_and_set flag_test_and_set_explicit \
		flag_clear flag_clear_explicit; do
		echo "atomic_$op@LIBATOMIC_1.2"
	done
}

# same WHAT EXPECTED GOT
same() {
	local difference
	difference=$(diff <(echo "$2") <(echo "$3")) || fail "$1:"$'\n'"$difference"
}

# versions FILE: the versions that it defines, and which goes before which.
versions() {
	readelf --wide -V "$1" | awk '
		/section .*contains/ { inside = /gnu\.version_d/ }
		inside && /Flags: none/ { name = $NF; print name }
		inside && /Parent/ { print name, "after", $NF }'
}

# dynamic FILE TAG: the names of such entries.
dynamic() {
	readelf --wide -d "$1" | sed -n "s/.*($2) .*\[\(.*\)\]/\1/p"
}

ours=$(symbols "$library")
same "symbols" "$(wanted | sort)" "$(grep -v '^near__' <<<"$ours" || true)"
count=$(grep -vc '^near__' <<<"$ours" || true)
[[ $count = 97 ]] || fail "$count symbols instead of 97"
# What begins so has no version of libatomic's: a program must not come to need it there.
if grep '^near__.*@LIBATOMIC' <<<"$ours"; then
	fail "private state has a version of libatomic's"
fi
same "versions" \
	$'LIBATOMIC_1.0\nLIBATOMIC_1.1\nLIBATOMIC_1.1 after LIBATOMIC_1.0
LIBATOMIC_1.2\nLIBATOMIC_1.2 after LIBATOMIC_1.1' "$(versions "$library" | grep LIBATOMIC)"
same "name" "$soname" "$(dynamic "$library" SONAME)"
libc='libc\.so(\.6)?|ld-linux.*\.so\.[0-9]'
others=$(dynamic "$library" NEEDED | grep -vxE "$libc" || true)
[[ -z $others ]] || fail "needs" "$others"
if readelf --wide -d "$library" | grep -E 'TEXTREL|RPATH|RUNPATH'; then
	fail "has what a system's library must not have"
fi
# Not an executable stack.
readelf --wide -l "$library" | grep -E 'GNU_STACK.* RW ' >/dev/null ||
	fail "wants an executable stack"

for other in "$@"; do
	[[ -f $other ]] || continue
	same "symbols of $other" "$(symbols "$other")" "$(grep -v '^near__' <<<"$ours" || true)"
	echo "$count symbols, as in $other"
	exit "$wrong"
done
echo "$count symbols; GCC's libatomic is not here, to compare them with"
exit $((wrong ? 1 : 77))
