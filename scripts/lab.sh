# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of ./dev: the laboratory, the models, the stress tests, and all proofs.

stress() {
	local minutes=$1 round=0 end
	build_quietly dev
	stop_on_signals
	end=$((SECONDS + minutes * 60))
	while ((SECONDS < end)); do
		say "== stress tests, round $((round += 1))," \
			"$(((end - SECONDS + 59) / 60)) minutes left"
		: >"$LOGS/stress.log"
		run_logged "$LOGS/stress.log" env NEAR_STRESS_SECONDS=60 \
			ctest --test-dir build/dev -L storm -LE mutant --no-tests=error \
			--output-on-failure || {
			tail -n 40 "$LOGS/stress.log" >&2
			fail "round $round failed; the log is build/logs/stress.log"
		}
	done
	say "dev: $round rounds without a failure"
}

# What was explored and checked before, the proofs do not rely on: records are for the tests.
#
# emulator_runs: the runs of tests/emulator/emu_test.py, as lines: name ; arguments. Clang
# compiles for each CPU for which there is a C library; a script in build/proof stands for it.
emulator_runs() {
	local cpu compiler gcc=() part
	mkdir -p build/proof
	for cpu in x86_64 aarch64 riscv64; do
		compiler=$cpu-linux-gnu-gcc
		[[ $(uname -m) != "$cpu" ]] || compiler=gcc
		if command -v "$compiler" >/dev/null; then
			gcc+=("$cpu" "$compiler")
			echo "$cpu-gcc;build/proof $cpu $compiler"
		fi
		if command -v "$compiler" >/dev/null && command -v clang >/dev/null; then
			compiler=build/proof/clang-$cpu
			cat >"$compiler" <<-EOF
				#!/bin/sh
				# It does not have this switch, nor that change of the code.
				for word; do
					shift
					[ "\$word" = -mno-fix-cortex-a53-843419 ] ||
						set -- "\$@" "\$word"
				done
				exec clang --target=$cpu-linux-gnu "\$@"
			EOF
			chmod +x "$compiler"
			echo "$cpu-clang;build/proof/clang $cpu $compiler"
		fi
	done
	for part in 0 1 2 3 4 5; do
		((${#gcc[@]} == 0)) || echo "mutants-$part;--faults=$part build/proof ${gcc[*]}"
	done
}

# prove NAME ARGUMENT...: one run, with a log of its own.
prove() {
	local name=$1 log=$LOGS/proof-$1.log began=$SECONDS status=0 python=/usr/bin/python3
	shift
	[[ -x $python ]] || python=python3 # Debian's has Debian's modules
	NEAR_TEST_TURN=all JOBS=1 "$python" tests/emulator/emu_test.py "$@" >"$log" 2>&1 ||
		status=$?
	if ((status == 0)); then
		echo "ok $name: $(tail -n 1 "$log" | cut -c 1-60)... $((SECONDS - began)) s"
	else
		echo "FAILED $name: the log is ${log#"$ROOT"/}"
	fi
}

# prove_all LIST: of emulator_runs, JOBS at a time. What it prints last is the progress.
prove_all() {
	local name arguments running=() n=0
	set +m # all in one process group, for an interrupt
	while IFS=';' read -r name arguments; do
		((n < JOBS)) || { wait -n && n=$((n - 1)); }
		echo "exploring $name"
		read -ra running <<<"$arguments"
		prove "$name" "${running[@]}" &
		n=$((n + 1))
	done <<<"$1"
	wait
}

records() { cksum models/checked tests/emulator/explored/* 2>/dev/null || true; }

# Explores and checks everything, also what the records have, without any bound. The emulator's
# programs do not depend on a preset.
proof() {
	local list before status=0 log=$LOGS/proof.log
	mkdir -p "$LOGS"
	stop_on_signals
	before=$(records)
	list=$(emulator_runs)
	: >"$log"
	[[ $list = *clang* ]] || say "dev: without clang, which is not there"
	say "== emulator: $(wc -l <<<"$list") runs, $JOBS at a time:" \
		"$(cut -d ';' -f 1 <<<"$list" | paste -s -d ' ')"
	run_logged "$log" prove_all "$list"
	grep -E '^(ok|FAILED) ' "$log" || true
	[[ $list && $(grep -c '^ok ' "$log") = $(wc -l <<<"$list") ]] || status=1
	say "== models: all"
	run_logged "$LOGS/proof-models.log" models/run.sh || status=1
	grep -E '^(FAILED|skipped) |^[0-9]+ checked' "$LOGS/proof-models.log" || true
	diff <(echo "$before") <(records) |
		sed -n 's/^> [0-9]* [0-9]* /dev: commit what has changed: /p' >&2 || true
	((status == 0)) || fail "not everything is proved"
	say "dev: everything is proved"
}

# Counts what operations do, ours and those of other libraries, which it fetches, and brings
# docs/scale.md up to date.
cost() {
	local others python=/usr/bin/python3 pairs=() cpu
	[[ -x $python ]] || python=python3 # Debian's has Debian's modules
	for cpu in x86_64 aarch64 riscv64; do
		pairs+=("$cpu" "$cpu-linux-gnu-gcc")
		[[ $(uname -m) != "$cpu" ]] || pairs[-1]=gcc
	done
	mkdir -p build/cost
	others=$(python3 lab/others.py "$@")
	"$python" tests/emulator/cost_others.py "$others" build/cost "${pairs[@]}"
	"$python" tests/emulator/cost.py --update docs/scale.md build/cost "${pairs[@]}"
	say "dev: the tables are in docs/scale.md"
}

# Each script in lab/packages builds a package and uses it as its users do. It runs in the root of
# the tree with a folder of its own as its argument; its line "# Packages:" names what it needs of
# Debian. Exit status 77: skipped, and its last line is the reason.
#
# package_run NAME: prints what became of it. Returns 1 if it failed.
package_run() {
	local name=$1 log=$LOGS/package-$1.log work=build/packages/$1 began=$SECONDS status=0
	mkdir -p "$work"
	: >"$log"
	say "== $name"
	run_logged "$log" bash "lab/packages/$name.sh" "$PWD/$work" || status=$?
	case $status in
	0) echo "ok $name: $((SECONDS - began)) s" ;;
	77) echo "skipped $name: $(tail -n 1 "$log")" ;;
	*)
		tail -n 20 "$log" >&2
		echo "FAILED $name: the log is ${log#"$ROOT"/}"
		return 1
		;;
	esac
}

# packages NAME...: all scripts without a name.
packages() {
	local name known wanted=() missing failed=0
	mapfile -t known < <(basename -s .sh lab/packages/*.sh | grep -vx common)
	for name; do
		[[ " ${known[*]} " = *" $name "* ]] ||
			bad_usage "no package '$name': ${known[*]}"
	done
	(($# > 0)) || set -- "${known[@]}"
	ensure_packages test
	mkdir -p "$LOGS"
	stop_on_signals
	for name; do
		read -ra wanted < <(sed -n 's/^# Packages: //p' "lab/packages/$name.sh")
		mapfile -t missing < <(not_installed "${wanted[@]}")
		[[ ! ${missing[*]} ]] || apt_install "${missing[@]}" ||
			fail "could not install ${missing[*]}"
		package_run "$name" || failed=1
	done
	((failed == 0)) || fail "not all packages work"
}

cmd_lab() {
	local minutes=10
	case ${1:-} in
	models)
		(($# == 1)) || bad_usage "lab models takes no '$2'"
		ensure_packages matrix
		models/run.sh
		;;
	cost)
		[[ $# -eq 1 || ($# -eq 2 && $2 = --update) ]] || bad_usage "lab cost takes --update"
		ensure_packages matrix
		cost "${@:2}"
		;;
	packages)
		packages "${@:2}"
		;;
	proof)
		(($# == 1)) || bad_usage "lab proof takes no '$2'"
		ensure_packages matrix
		proof
		;;
	stress)
		[[ $# -eq 1 || $2 != --minutes ]] || minutes=${3:-}
		[[ $# -le 3 && ${2:---minutes} = --minutes && $minutes =~ ^[1-9][0-9]{0,4}$ ]] ||
			bad_usage "lab stress takes --minutes and 1 to 99999"
		ensure_packages matrix
		stress "$minutes"
		;;
	*)
		if [[ " $* " =~ \ fetch\  ]]; then
			command -v python3 >/dev/null || ensure_packages test
		elif [[ ! " $* " =~ \ (list|--list|-h|--help)\  ]]; then
			ensure_packages matrix
		fi
		cd "$CALLER" || exit
		exec python3 "$ROOT/lab/lab.py" "$@"
		;;
	esac
}
