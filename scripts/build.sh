# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of ./dev: build, install, docs, bench.

# configure_and_build PRESET [CMAKE-ARGUMENT...]
configure_and_build() {
	cmake --preset "$@" && cmake --build "build/$1" --parallel "$JOBS"
}

# show_end LOG
show_end() {
	tail -n 30 "$1" >&2
	[[ -s $1 ]] || say "  The log is empty: is the disk full?"
}

# build_quietly PRESET [CMAKE-ARGUMENT...]: prints only failures.
build_quietly() {
	mkdir -p "$LOGS"
	configure_and_build "$@" >"$LOGS/build-$1.log" 2>&1 || {
		show_end "$LOGS/build-$1.log"
		fail "preset $1 does not build; all of it is in build/logs/build-$1.log"
	}
}

is_preset() {
	[[ $1 != base* ]] && grep -qF "\"name\": \"$1\"" CMakePresets.json
}

# The preset release builds no tests, dev those of the first tier and what else it can.
cmd_build() {
	local preset purpose=build
	(($# > 0)) || set -- release
	for preset in "$@"; do
		is_preset "$preset" || bad_usage "no preset '$preset' in CMakePresets.json"
		case $preset-$purpose in
		release-* | dev-matrix) ;;
		dev-*) purpose="test" ;;
		*) purpose=matrix ;;
		esac
	done
	ensure_packages "$purpose"
	for preset in "$@"; do
		configure_and_build "$preset"
	done
}

cmd_install() {
	local prefix=/usr/local
	while (($# > 0)); do
		case $1 in
		--prefix) prefix=${2:-} && shift ;;
		--prefix=*) prefix=${1#*=} ;;
		*) bad_usage "install takes no '$1'" ;;
		esac
		shift || true
	done
	[[ -n $prefix ]] || bad_usage "--prefix needs a directory"
	[[ $prefix = /* ]] || prefix=$CALLER/$prefix
	ensure_packages build
	configure_and_build release -DCMAKE_INSTALL_PREFIX="$prefix"
	cmake --install build/release
	[[ -n ${DESTDIR:-} ]] || renew_loader_cache
}
# Programs find a library in a directory of the dynamic linker's only once it is in the linker's
# cache; for other directories they need a search path.
renew_loader_cache() {
	local dir ldconfig searched PATH=$PATH:/usr/sbin:/sbin
	dir=$(grep -m 1 '/libnearcpu\.so$' build/release/install_manifest.txt) || return 0
	dir=${dir%/*}
	ldconfig=$(command -v ldconfig) || return 0
	searched=$("$ldconfig" -v -N -X 2>/dev/null | cut -d : -f 1 || true)
	if ! grep -qxF -- "$dir" <<<"$searched"; then
		say "dev: the dynamic linker does not search $dir: programs need"
		say "  LD_LIBRARY_PATH=$dir, or to be linked with -Wl,-rpath,$dir"
	elif ((EUID != 0)) || ! "$ldconfig"; then
		say "dev: programs find the library once you have run, as root: ldconfig"
	fi
}

cmd_docs() {
	no_arguments docs "$@"
	ensure_packages docs
	cmake --preset release >/dev/null
	cmake --build build/release --target man docs
	if [[ -f build/docs/html/index.html ]]; then
		say "dev: the site is build/docs/html/index.html"
	else
		say "dev: the API pages are in build/docs/html/api/index.html"
	fi
	say "dev: man pages for man(1) are in build/release/man"
}

# build_crate NAME: as CMake does it. Cargo reads the settings of the directory that it runs in.
build_crate() {
	local dir=$1/rust variables=()
	[[ $1 != histogram ]] || dir=histogram_rust
	[[ $1 != map ]] || variables=(RUSTC_BOOTSTRAP=1)
	(cd "bench/$dir" && env "${variables[@]}" cargo build --release --locked --jobs "$JOBS" \
		--target-dir "$ROOT/build/release/bench/$dir") >>"$LOGS/bench-rust.log" 2>&1
}

# Built beforehand, so that a crate that goes wrong costs but its rows. Adds to `crates`.
build_rust_rows() {
	local log=$LOGS/bench-rust.log name
	mkdir -p "$LOGS"
	: >"$log"
	for name in "${RUST_PACKAGES[@]}"; do
		if ! command -v cargo >/dev/null && may_install; then
			apt_install --no-remove "$name" >>"$log" 2>&1 || true
		fi
	done
	if ! command -v cargo >/dev/null; then
		say "dev: without the rows of Rust: no cargo (package ${RUST_PACKAGES[0]})"
		return
	fi
	for name in locks histogram rcu map; do
		if build_crate "$name"; then
			crates+=("$name")
		else
			say "dev: without the rows of Rust of nearcpu bench $name: see" \
				"${log#"$ROOT"/} (those of rcu and map need rustc 1.72," \
				"package ${RUST_PACKAGES[0]})"
		fi
	done
}

# The report goes to build/bench unless the arguments name another place or request no run.
cmd_bench() {
	local argument crates=() report=("--html" "$ROOT/build/bench/report.html")
	for argument in "$@"; do
		case $argument in
		--html | --html=* | --list | --help | -h) report=() ;;
		esac
	done
	ensure_packages bench
	mkdir -p build/bench
	build_rust_rows
	build_quietly release -DNEAR_BENCH_RUST=ON \
		-DNEAR_BENCH_CRATES="$(IFS=';' && echo "${crates[*]}")"
	cd "$CALLER" || exit
	"$ROOT/build/release/bin/nearcpu" bench "$@" "${report[@]}"
	((${#report[@]} == 0)) || say "dev: the report is in build/bench/report.html"
}

