#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: lttng_theirs.sh PROGRAM FOLDER
set -e
# [commands]
lttng create shop-$$ --output="$2"
lttng enable-event --userspace 'shop:*'
lttng add-context --userspace --type=vtid
lttng start
"$1"
lttng destroy shop-$$
babeltrace2 "$2"
# [/commands]
