#!/bin/busybox sh
# shellcheck shell=dash
# /init of the initramfs: loads the modules, mounts the host's files below a layer that takes our writes, and goes there.
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
while read -r module; do
  insmod "/modules/$module" || echo "insmod $module failed"
done </order

options=trans=virtio,version=9p2000.L,msize=512000
mount -t 9p -o $options,ro,cache=loose root /lower
mount -t tmpfs -o size=80% none /upper
mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/lower,upperdir=/upper/files,workdir=/upper/work none /root || poweroff -f
for dir in proc sys dev; do mount --move /$dir /root/$dir; done
cd /root/dev || poweroff -f
ln -s /proc/self/fd fd
ln -s fd/0 stdin
ln -s fd/1 stdout
ln -s fd/2 stderr
cd /
mkdir -p /root/run /root/dev/shm /root/dev/pts /root/lib/modules
mount -t tmpfs none /root/run
mount -t tmpfs none /root/dev/shm
mount -t devpts none /root/dev/pts
cp /bin/busybox /root/run/
mkdir /root/run/control
mount -t 9p -o $options,cache=none control /root/run/control
while read -r tag dir; do
  mkdir -p "/root$dir"
  mount -t 9p -o $options,cache=mmap "$tag" "/root$dir" || poweroff -f
done </root/run/control/mounts
mount --bind "/root$(cat /root/run/control/modules)" /root/lib/modules
exec switch_root /root /bin/bash /run/control/main
