#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# shellcheck disable=SC2016 # other shells expand
# Part of lab/packages/newcomer.sh: runs in the root, as a user, and as root
# for what a service does.
set -euo pipefail
doc=/usr/share/doc/libnearcpu-doc
export MANWIDTH=200
say() { echo "== $*"; }
fail() { echo "FAILED: $*"; exit 1; }
as_user() { runuser -u newcomer -- env -C /home/newcomer HOME=/home/newcomer "$@"; }

say "manual pages"
mapfile -t pages < <(cat /var/lib/dpkg/info/{nearcpu,libnearcpu}*.list |
	sed -n 's,^/usr/share/man/man./\(.*\)\.gz$,\1,p')
((${#pages[@]} > 30))
for name in "${pages[@]}"; do
	as_user man --warnings "${name##*.}" "${name%.*}" >/tmp/page 2>/tmp/warnings
	[[ ! -s /tmp/warnings && $(wc -l </tmp/page) -gt 10 ]] ||
		fail "man ${name##*.} ${name%.*}: $(head -n 3 /tmp/warnings)"
done
as_user man nearcpu | grep -q 'nearcpu run'
as_user man 7 nearcpu | grep -q near_counter

# The first C block is no whole program: what its comments say is added. The line of the compiler is
# the one that README.md has.
say "the example of README.md"
{
	awk '/^```c$/ { on = 1; next } /^```/ && on { exit } on' "$doc/README.md"
	cat <<-'END'
		#include <stdio.h>
		int main(void)
		{
			if (near_counter_init(&hits))
				return 1;
			on_request();
			on_request();
			printf("%lld hits\n", (long long)near_counter_read(&hits));
			return 0;
		}
	END
} >/home/newcomer/program.c
compile=$(grep -m 1 '^cc program.c ' "$doc/README.md" | sed 's/ *#.*//')
as_user sh -euc "$compile; ./a.out" | grep -x '2 hits'

say "every example, by the same line"
for file in "$doc"/examples/*.c; do
	name=$(basename "$file" .c)
	libraries=nearcpu
	[[ $name != torture ]] || libraries='nearcpu nearcpu-torture'
	as_user sh -euc "${compile/program.c/-o $name $file}" ||
		as_user sh -euc "cc -o $name $file \$(pkg-config --cflags --libs $libraries)"
done

say "a trace"
as_user nearcpu trace record --output /dev/shm/orders -- ./trace
as_user nearcpu trace show /dev/shm/orders >/tmp/events
grep -m 1 'shop:order id=.* customer="alice"' /tmp/events
grep -c shop:change /tmp/events
as_user nearcpu trace stat /dev/shm/orders | grep shop:order

# served PID: the process allocates by the library.
served() {
	as_user grep -q nearcpu-malloc "/proc/$1/maps" || grep -q nearcpu-malloc "/proc/$1/maps"
	nearcpu info "$1" | grep '^libraries.*malloc'
}
load() {
	for _ in {1..100}; do redis-cli ping 2>/dev/null | grep -q PONG && break; sleep .1; done
	redis-benchmark -q -n 20000 -r 10000 -t set,get,lpush,zadd | tr '\r' '\n' | grep second
	redis-cli dbsize
}

say "Redis by the command"
as_user nearcpu run --stats --region /dev/shm/redis -- redis-server --save '' >/tmp/redis.log 2>&1 &
load
served "$(pidof redis-server)"
as_user nearcpu stats /dev/shm/redis >/tmp/stats
grep -m 1 in_use /tmp/stats
as_user nearcpu stats --prometheus /dev/shm/redis >/tmp/stats
grep -m 1 '^near_malloc' /tmp/stats
redis-cli shutdown nosave || true
wait
grep -i -m 1 near /tmp/redis.log

# The drop-in is the page's, with the path that nearcpu info prints, as the page
# demands.
say "Redis as its unit runs it"
unit=/etc/systemd/system/redis-server.service.d/malloc.conf
library=$(nearcpu info | sed -n 's/^malloc library *//p')
mkdir -p "$(dirname "$unit")"
man near_malloc-production | sed -n '/^SYSTEMD/,/^DOCKERFILE/p' |
	sed -n '/\[Service\]/,/^ *$/s/^ *//p' |
	sed "s,/usr/lib/nearcpu/libnearcpu-malloc.so,$library," |
	tee "$unit"
[[ $(grep -c '^Environment=' "$unit") = 2 && $library = */nearcpu/libnearcpu-malloc.so ]]
systemd-analyze verify --man=no redis-server.service
mapfile -t settings < <(sed -n 's/^Environment=//p' "$unit")
install -d -o redis -g redis /run/redis
runuser -u redis -- env -i "${settings[@]}" redis-server --save '' >/tmp/redis.log 2>&1 &
load
served "$(pidof redis-server)"
nearcpu stats /run/redis/malloc >/tmp/stats
grep -m 1 in_use /tmp/stats
redis-cli shutdown nosave || true
wait
! grep 'ld.so:' /tmp/redis.log || fail "the preload was refused"

say "completions, where the shells find them"
as_user bash -euc '. /usr/share/bash-completion/bash_completion
	_completion_loader nearcpu || true
	COMP_WORDS=(nearcpu stat) COMP_CWORD=1 COMP_LINE="nearcpu stat" COMP_POINT=12
	"$(complete -p nearcpu | sed "s/.*-F //; s/ .*//")" nearcpu stat nearcpu
	echo "${COMPREPLY[*]}"' | grep '^stats'
as_user zsh -fc 'autoload -Uz compinit && compinit -u -D && autoload +X $_comps[nearcpu] &&
	whence -v $_comps[nearcpu]' | grep /vendor-completions/_nearcpu
as_user fish -c 'complete -C "nearcpu stat"' | grep '^stats'
