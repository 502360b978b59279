#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: lttng_ours.sh PROGRAM FOLDER
set -e
# [commands]
nearcpu trace record --name 'shop:*' --output "$2" "$1"
nearcpu trace show "$2"
# [/commands]
