#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: abi.sh SOURCE ARCHITECTURE COMPILER...
# The constants of near_abi(7) are those of the headers, for this architecture. ARCHITECTURE selects
# the lines that name one.
set -euo pipefail

source=$1 architecture=$2
shift 2
headers=(counter percpu rcu rseq seq)

# Lines of a literal block: an expression, its value, and for some the architecture.
constants=$(awk '/^# / { here = $2 == "CONSTANTS" }
	/^\140/ { inside = !inside; next }
	here && inside' "$source/man/near_abi.7.scd")

# What other languages cannot do without.
for needed in 'near__thread, area' 'near__thread, index_mode' 'near__area, rseq_cs' \
	'near__area, cpu_id' 'near__area, mm_cid' 'near__area, node_id' 'near_counter, p' \
	NEAR_STRIDE_SHIFT NEAR__OPEN NEAR__SIGNATURE; do
	grep -qF "$needed" <<<"$constants" || { echo "near_abi(7) lacks $needed" && exit 1; }
done

checks=$(sed -nE "s/^(.*[^ ])  +(0x[0-9a-f]+|[0-9]+)( $architecture)?\$/\\1@\\2/p" <<<"$constants" |
	sed -E 's/(.*)@(.*)/_Static_assert((uint64_t)(\1) == \2u, "\1");/')
count=$(wc -l <<<"$checks")
{
	printf '#include <nearcpu/%s.h>\n' "${headers[@]}"
	printf '#include <stddef.h>\n#include <stdint.h>\n%s\n' "$checks"
} | "$@" -std=c11 -I"$source/include" -x c -fsyntax-only -
echo "$count constants"
((count == $(grep -cvE ' (x86_64|aarch64|riscv64)$' <<<"$constants") + 1))
