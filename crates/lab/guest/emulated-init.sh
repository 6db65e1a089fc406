#!/bin/bash
# First process of the guest whose clock counts instructions. LAB_SHARE is a disk with the script to run (`script`) and
# its arguments (`environment`); what it says goes to the console, and nobody in here limits its time: where the guest
# waits for the host its clock leaps.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C
for kind in proc:/proc sysfs:/sys devtmpfs:/dev configfs:/sys/kernel/config; do
    mountpoint -q "${kind#*:}" || mount -t "${kind%:*}" none "${kind#*:}"
done
modprobe -a configfs null_blk nfs nfsv3 nfsd
mountpoint -q /sys/kernel/config || mount -t configfs none /sys/kernel/config
mount -t tmpfs tmp /tmp -o size=75%
for folder in /run /var/lib/nfs /var/tmp /mnt /root /media; do mount -t tmpfs tmp "$folder"; done
mkdir -p /run/lock /run/rpcbind /var/lib/nfs/{sm,sm.bak,v4recovery,rpc_pipefs,nfsdcld,nfsdcltrack} /media/share
touch /var/lib/nfs/{etab,rmtab,state}
ip link set lo up
hostname tally-lab
mount -t ext4 -o ro /dev/vdb /media/share
cp -r /media/share/. /tmp/
cd /tmp || exit
set -a; . /tmp/environment; set +a
bash /tmp/script 2>&1
echo "status $?"
echo o > /proc/sysrq-trigger
sleep 30
