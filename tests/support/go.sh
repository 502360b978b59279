#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Sourced by tests that check something by a program in Go, with modules that others wrote.
PATH=$PATH:/usr/local/go/bin:/usr/lib/go/bin

skip() {
	echo "skipped: $*"
	exit 77
}

# go_check FOLDER MODULE: builds the program in the folder check beside the test, as FOLDER/check,
# and goes there. Skips the test where there is no Go, or its proxy does not have MODULE.
go_check() {
	command -v go >/dev/null || skip "no go"
	export GO111MODULE=on GOTOOLCHAIN=local GOFLAGS=-modcacherw GOPATH=$1/go GOCACHE=$1/cache
	mkdir -p "$1"
	cd "$(dirname "$(realpath "$0")")/check" || exit 1
	go mod download >"$1/download.log" 2>&1 || skip "no $2: $(tail -1 "$1/download.log")"
	go build -o "$1/check" .
}
