#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# usage: enter.sh ROOT COMMAND...
# Part of root.sh: mounts what the root needs and runs the command, which sees the whole machine.
# In mount and pid namespaces of its own.
set -euo pipefail
root=$1
mount --make-rprivate /
mount -t proc proc /proc
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
	: >"$root/dev/$device"
	mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root"/dev/{pts,shm}
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
ip link set lo up
# The resolver's settings are mounted, and so no part of the root.
for file in hosts resolv.conf; do
	[[ -e $root/etc/$file ]] || : >"$root/etc/$file"
	[[ ! -f /etc/$file ]] || mount --bind "/etc/$file" "$root/etc/$file"
done
exec "${@:2}"
