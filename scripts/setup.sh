# shellcheck shell=bash
# SPDX-License-Identifier: MIT
# Part of ./dev: the Debian packages for each purpose, and their installation.

# To build the library, the command and its man pages.
BUILD_PACKAGES=(gcc libc6-dev cmake ninja-build pkg-config libjansson-dev libelf-dev libcapstone-dev
	zlib1g-dev scdoc)
# For the first tier of tests: the harness, and the emulator of this machine's CPU.
TEST_PACKAGES=(g++ git libcmocka-dev libgtest-dev python3 python3-pyelftools
	python3-unicorn python3-distutils make groff-base)
# For the matrix: compilers, emulators, checkers of programs, models and sources, readers.
MATRIX_PACKAGES=(clang libclang-rt-dev valgrind
	libc6-dbg gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross
	gcc-riscv64-linux-gnu g++-riscv64-linux-gnu libc6-dev-riscv64-cross
	gcc-i686-linux-gnu g++-i686-linux-gnu libc6-dev-i386-cross
	qemu-user-static musl-tools spin relacy-dev doxygen clang-format clang-tidy
	shellcheck codespell mmdebstrap babeltrace2 python3-bt2 systemtap-sdt-dev
	python3-prometheus-client abigail-tools)
# Comparison libraries of the benchmarks, which report those that are missing.
BENCH_PACKAGES=(g++)
OPTIONAL_BENCH_PACKAGES=(libnsync-dev libck-dev libabsl-dev libboost-dev libconcurrentqueue-dev
	liburcu-dev linux-perf libjemalloc2 libtcmalloc-minimal4 libmimalloc2.0)
# For the rows of bench trace. One has a daemon: ./dev bench alone installs them.
TRACER_PACKAGES=(liblttng-ust-dev lttng-tools libspdlog-dev)
# Programs that are linked with libatomic, 36 MB: the test of the drop-in runs those that it finds.
OPTIONAL_MATRIX_PACKAGES=(iitii mmmulti libjavascriptcoregtk-4.0-bin)
# A browser, 400 MB, for the pages of nearcpu trace and ids.
OPTIONAL_MATRIX_PACKAGES+=(chromium)
OPTIONAL_MATRIX_PACKAGES+=(bash-completion zsh fish) # 20 MB, for what they complete
# For Perfetto's messages from PyPI, which read what nearcpu trace exports for it.
OPTIONAL_MATRIX_PACKAGES+=(python3-venv)
# Go, 450 MB, for the histories of maps and for programs that call the library.
OPTIONAL_MATRIX_PACKAGES+=(golang-go)
# For what it shows of the structures, packaging/gdb.py.
OPTIONAL_MATRIX_PACKAGES+=(gdb)
OPTIONAL_MATRIX_PACKAGES+=(libjemalloc-dev) # for a listing of examples/coming_from
# For the rows of Rust, where there is no cargo: the first that can be installed. Debian 12's cargo
# is too old for papaya. They are large: ./dev bench alone installs one.
# shellcheck disable=SC2034
RUST_PACKAGES=(cargo-web cargo)

# packages_for PURPOSE: sets wanted and optional.
packages_for() {
	wanted=("${BUILD_PACKAGES[@]}") optional=()
	case $1 in
	build) ;;
	fmt) wanted=(clang-format git) ;;
	lint) wanted+=("${TEST_PACKAGES[@]}" "${MATRIX_PACKAGES[@]}") ;;
	docs) wanted+=(doxygen python3 python3-venv) ;;
	bench)
		wanted+=("${BENCH_PACKAGES[@]}")
		optional=("${OPTIONAL_BENCH_PACKAGES[@]}" "${TRACER_PACKAGES[@]}")
		;;
	test) wanted+=("${TEST_PACKAGES[@]}") ;;
	matrix | all)
		wanted+=("${TEST_PACKAGES[@]}" "${MATRIX_PACKAGES[@]}")
		optional=("${OPTIONAL_BENCH_PACKAGES[@]}" "${OPTIONAL_MATRIX_PACKAGES[@]}")
		;;
	esac
}

# Prints those of the packages that are not installed.
not_installed() {
	local installed
	installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "$@" 2>/dev/null |
		sed -n 's/^installed //p' || true)
	comm -23 <(printf '%s\n' "$@" | sort -u) <(sort -u <<<"$installed")
}

may_install() {
	((EUID == 0)) || { command -v sudo && { [[ -t 0 ]] || sudo -n true; }; } >/dev/null 2>&1
}

apt_get() {
	local as_root=()
	((EUID == 0)) || as_root=(sudo)
	"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
		apt-get -y -o DPkg::Lock::Timeout=300 "$@" >&2
}

apt_install() { apt_get install --no-install-recommends "$@"; }

# install_optional PACKAGE...: those that this Debian does not have are tried once, not at each
# call.
install_optional() {
	local stamp=build/.optional-packages missing package known=()
	mapfile -t missing < <(not_installed "$@")
	[[ ${missing[*]} ]] || return 0
	[[ -f $stamp && $(<"$stamp") = "${missing[*]}" ]] && return 0
	for package in "${missing[@]}"; do
		[[ -n $(apt-cache policy "$package" 2>/dev/null) ]] && known+=("$package")
	done
	((${#known[@]} == 0)) || apt_install "${known[@]}" || say "dev: went on without ${known[*]}"
	mkdir -p build
	not_installed "$@" | paste -s -d ' ' >"$stamp"
}

# ensure_packages PURPOSE: build, test, matrix, bench, docs, fmt, lint or all. Sets installed_some.
ensure_packages() {
	local missing wanted optional
	installed_some=
	packages_for "$1"
	if ! command -v dpkg-query >/dev/null; then
		say "dev: this is not Debian; it is up to you to install: ${wanted[*]}"
		return 0
	fi
	mapfile -t missing < <(not_installed "${wanted[@]}")
	if [[ ${missing[*]} ]]; then
		say "dev: these packages are missing: ${missing[*]}"
		if ! { may_install && apt_get update && apt_install "${missing[@]}"; }; then
			say "dev: could not install them. Run this as root, then try again:"
			say "apt-get update &&" \
				"apt-get install -y --no-install-recommends ${missing[*]}"
			exit 1
		fi
		# shellcheck disable=SC2034 # of the time that this may take
		installed_some=yes
	fi
	((${#optional[@]} == 0)) || ! may_install || install_optional "${optional[@]}"
}

cmd_setup() {
	(($# <= 1)) || bad_usage "setup takes no '$2'"
	[[ ${1:-all} =~ ^(build|test|matrix|bench|all)$ ]] ||
		bad_usage "no purpose '$1': build, test, matrix, bench, all"
	ensure_packages "${1:-all}"
}
