#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# models/run.sh, in a directory of its own, with a checker that always passes: which lines it checks
# again, and what it records.
set -euo pipefail
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
while [[ ! -x $source/models/run.sh ]]; do source=$(dirname "$source"); done
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cp "$source/models/run.sh" "$dir"
cat >"$dir/stub.sh" <<'EOF'
#!/bin/sh
[ -z "${MISSING:-}" ] || exit 77
shift
echo "pass: $*"
EOF
chmod +x "$dir/stub.sh"
echo '#include "common.h"' >"$dir/model.c"
echo 'int line = LINE;' >"$dir/common.h"
for n in {1..16}; do echo "stub  model.c  pass  -DLINE=$n."; done >"$dir/list"

wrong=0
# checks WANTED ARGUMENT...: how many lines run.sh checks with these arguments.
checks() {
	local wanted=$1 got
	shift
	got=$("$dir/run.sh" "$@" | grep -cE '^(ok|FAILED) ' || true)
	[[ $got = "$wanted" ]] || { echo "run.sh $*: checks $got lines, not $wanted" && wrong=1; }
}

# falsify LINE: gives the line's record another hash.
falsify() {
	sed -i "/=$1\.\$/s/^[0-9a-f]*/$(printf '%032d' 0)/" "$dir/checked"
}

checks 16 --turn 3
checks 2 --turn 3
[[ $(wc -l <"$dir/checked") = 16 ]] || { echo "not all lines are recorded" && wrong=1; }
for turn in {0..7}; do "$dir/run.sh" --turn "$turn"; done | grep '^ok ' | sort | uniq -c |
	awk '$1 != 1 { wrong = 1 } END { exit wrong || NR != 16 }' ||
	{ echo "eight turns do not check each line once" && wrong=1; }
checks 16
checks 8 =1

# The record of a line that has another hash does not count; the run that checks it corrects it.
cp "$dir/checked" "$dir/before"
for n in 1 2 9 16; do
	falsify "$n"
	! cmp -s "$dir/checked" "$dir/before" || { echo "line $n is not falsified" && wrong=1; }
	"$dir/run.sh" --turn 3 >"$dir/out"
	grep -q "^ok .*=$n\.:" "$dir/out" || { echo "line $n is not checked" && wrong=1; }
	cmp "$dir/checked" "$dir/before" || wrong=1
done

# What a result depends on: the line, the model, what it includes, the checker.
echo "stub  model.c  pass  -DLINE=17." >>"$dir/list"
checks 3 --turn 0
echo '/* A comment. */' >>"$dir/common.h"
checks 2 --turn 0
echo 'int other;' >>"$dir/common.h"
checks 17 --turn 0
echo 'int other;' >>"$dir/model.c"
checks 17 --turn 0
echo >>"$dir/stub.sh"
checks 17 --turn 0

# A line that fails loses its record, and one whose tool is missing keeps it.
sed -i 's/pass  -DLINE=5\./violated  -DLINE=5./' "$dir/list"
checks 3 --turn 1
checks 3 --turn 1
[[ $(wc -l <"$dir/checked") = 16 ]] || { echo "a line that fails is recorded" && wrong=1; }
cp "$dir/checked" "$dir/before"
MISSING=1 "$dir/run.sh" --turn 0 >/dev/null && wrong=1
cmp "$dir/checked" "$dir/before" || wrong=1

# A switch that neither the model nor what it includes reads.
echo "stub  model.c  pass  -DNOBODY" >"$dir/list"
"$dir/run.sh" >"$dir/out" && wrong=1
grep -q 'nothing reads -DNOBODY' "$dir/out" || { echo "an unread switch passes" && wrong=1; }
((wrong == 0))
