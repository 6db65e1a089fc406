#!/bin/bash
# First process of the guest. The kernel hands over the host's folder as the variable LAB_SHARE; in it lie the
# script to run (`script`), its arguments (`environment`), and the place where the exit status goes (`status`).
# The root is read-only and shared between runs, so everything that changes lies on a tmpfs.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmp /tmp -o size=75%
for folder in /run /var/lib/nfs /var/tmp /mnt /root /media; do mount -t tmpfs tmp "$folder"; done
mkdir -p /run/lock /run/rpcbind /var/lib/nfs/{sm,sm.bak,v4recovery,rpc_pipefs,nfsdcld,nfsdcltrack} /media/share
touch /var/lib/nfs/{etab,rmtab,state}
ip link set lo up
modprobe -a nfs nfsv3 nfsd 2>/dev/null
hostname tally-lab
mount -t hostfs none /media/share -o "$LAB_SHARE"
cp /media/share/* /tmp/ 2>/dev/null
cd /tmp || exit
set -a; . /tmp/environment; set +a
timeout -k 5 "$LAB_SECONDS" bash /tmp/script > /media/share/output 2>&1
echo $? > /media/share/status
sync
# Powering off by sysrq needs no init system and leaves no orphaned mount to wait for.
echo o > /proc/sysrq-trigger
sleep 30
