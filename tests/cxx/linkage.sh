#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: linkage.sh CXX INCLUDE LIBRARY [MODULE-CXX]
# In C++ the inline functions have external linkage, are hidden, and have other symbols where they
# have other bodies. With a compiler that knows modules: a module exports them.
set -euo pipefail
cxx=$1 include=$2 library=$3 module_cxx=${4:-}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

cat >"$dir/use.cc" <<'END'
#include <nearcpu/counter.h>
#include <nearcpu/malloc.h>
#include <nearcpu/mutex.h>
#include <nearcpu/pool.h>
#include <nearcpu/queue.h>
#include <nearcpu/rcu_map.h>
#include <nearcpu/stack.h>
void use(near_counter *c, near_pool *p, near_stack *s, near_queue *q, near_mutex *m,
	 near_rcu_map *map)
{
	near_counter_add(c, 1);
	near_pool_put(p, near_pool_get(p));
	near_stack_push(s, near_stack_pop(s));
	near_queue_try_put(q, near_rcu_map_lookup(map, m));
	near_mutex_lock(m);
	near_mutex_unlock(m);
	near_free(near_malloc(1));
}
END

# functions FLAG...: kind, binding, visibility and symbol of what is defined.
functions() {
	"$cxx" -std=c++17 -O0 -I"$include" "$@" -c "$dir/use.cc" -o "$dir/use.o"
	readelf -sW "$dir/use.o" | awk '$4 == "FUNC" && /near_/ && !/_Z3use|near__stay_here/ \
		&& $7 != "UND" {print $5, $6, $8}' | sort
}

functions >"$dir/plain"
(($(wc -l <"$dir/plain") > 10)) || { echo "too few functions"; cat "$dir/plain"; exit 1; }
! grep -v '^WEAK HIDDEN ' "$dir/plain" || { echo "these are not weak and hidden"; exit 1; }
for flag in -fsanitize=thread -DNEAR_VALGRIND=1 -DNEAR_ARCH_GENERIC; do
	functions "$flag" >"$dir/other"
	[[ -s $dir/other ]]
	[[ -z $(comm -12 "$dir/plain" "$dir/other") ]] ||
		{ echo "$flag: the same symbols"; comm -12 "$dir/plain" "$dir/other"; exit 1; }
done

[[ $module_cxx ]] || { echo "no compiler that knows modules: not tried"; exit 0; }
cat >"$dir/near.cppm" <<'END'
module;
#include <nearcpu/counter.h>
export module near;
export using ::near_counter;
export using ::near_counter_init;
export using ::near_counter_add;
export using ::near_counter_read;
END
cat >"$dir/main.cc" <<'END'
import near;
int main()
{
	near_counter c;
	if (near_counter_init(&c))
		return 1;
	near_counter_add(&c, 3);
	return near_counter_read(&c) != 3;
}
END
cd "$dir"
"$module_cxx" -std=c++20 -O2 -I"$include" --precompile near.cppm -o near.pcm
"$module_cxx" -std=c++20 -O2 -c near.pcm -o near.o
"$module_cxx" -std=c++20 -O2 -fmodule-file=near=near.pcm -c main.cc -o main.o
"$module_cxx" main.o near.o "$library" -pthread -o main
./main
echo "a module exports them"
