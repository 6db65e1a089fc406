# What a machine goes through that the package comes to: a part for each boot, `/var/tried` says which is next. What was counted
# stands beside it.
SHARE=/media/share TRIED=/var/tried SAFE=/var/safe
. $SHARE/library
TALLY=tally MNT=/mnt/share
ADDRESS=192.0.2.1 OTHER=192.0.2.2
mkdir -p $SAFE
[ ! -e $SAFE/counts ] || . $SAFE/counts
# The next boot goes on with this part.
goes_on_with() { echo "passed=$passed failed=$failed" > $SAFE/counts; echo "$1" > $TRIED; next=$1; exit 0; }
trap 'told=$?; [ -n "${next:-}" ] || echo $told > $SHARE/status; sync' EXIT
part=$(cat $TRIED 2> /dev/null || echo install); echo "$part" > $TRIED

# A client of its own network, name and mounts.
other_machine() {
    modprobe -a nfs nfsv3 nfsv4; modprobe veth
    unshare --net --uts --mount --propagation private sleep infinity & echo $! > /run/other-machine; sleep 1
    ip link add lab0 type veth peer name lab1 netns "$(cat /run/other-machine)" && ip address add $ADDRESS/24 dev lab0 && ip link set lab0 up && ip link set lo up &&
        there "hostname client && ip address add $OTHER/24 dev lab1 && ip link set lab1 up && ip link set lo up && mkdir -p $MNT"
}
there() { nsenter -t "$(cat /run/other-machine)" -n -u -m sh -c "$*"; }
mounts() { there "mount -t nfs -o $1 $ADDRESS:/tank/share $MNT"; }
is_active() { systemctl is-active --quiet "$@"; }
# It is content, and prints nothing.
verified() {
    local said
    said=$(cd /lib/systemd/system && systemd-analyze verify --recursive-errors=no tally.service tally-mount.service tally-remount.service tally-events.service tally-scrub@tank.service tally-scrub@tank.timer tally-smb.path tally-smb.service 2>&1) && [ -z "$said" ] || { echo "$said"; false; }
}
answers() { for _ in $(seq 60); do tally pool status > /dev/null 2>&1 && return; sleep 0.5; done; tally pool status; }
# Mounts of its own: one where the dataset says, with one in it, and one of /etc/fstab.
TABLE='tank/table /srv/table tally _netdev,nofail,x-systemd.after=tally.service,x-systemd.wanted-by=tally.service 0 0'
have_mounts() {
    for _ in $(seq 120); do
        [ "$(cat /home/ann/file 2> /dev/null) $(cat /srv/table/file 2> /dev/null)" = "of ann of the table" ] && return
        sleep 0.5
    done
    tally mount; cat /proc/self/mounts; journalctl -b -o cat -u tally-mount -u tally-remount -u srv-table.mount | tail -n 20; false
}
no_mounts() { ! grep -w fuse.tally /proc/self/mountinfo; }
# Files of sizes that a source tree has, and what is in them.
make_archive() {
    mkdir -p $SAFE/tree && ( cd $SAFE/tree && for n in $(seq 300); do mkdir -p "d$((n % 12))" && head -c "$((n * 37 % 9000 + 1))" /dev/urandom > "d$((n % 12))/$n" || exit; done ) &&
        tar -C $SAFE -cf $SAFE/tree.tar tree && (cd $SAFE && find tree -type f -exec sha256sum {} + > sums) && rm -r $SAFE/tree
}
is_whole() { there "cd $MNT && sha256sum --quiet --strict -c $SAFE/sums && [ \$(find tree -type f | wc -l) = 300 ]"; }
# The disk as it is, of what was served from it.
picture() { sha256sum < /dev/ubdb; }

case $part in
install)
    need "systemd is the first process" test "$(cat /proc/1/comm)" = systemd
    need "another machine" other_machine
    need "an archive" make_archive
    began=$SECONDS
    need "the package installs" apt-get install -y --no-install-recommends $SHARE/older.deb
    need "a dataset is served behind one command" tally init --yes --on /dev/ubdb --network 192.0.2.0/24
    need "both took less than a minute" test $((SECONDS - began)) -le 60
    need "the server runs, and so does what runs programs for events" is_active tally tally-events
    need "systemd has nothing to say of the units" verified
    note "systemd's judgement: $(systemd-analyze security tally.service 2> /dev/null | tail -n 1)"
    need "its folder is for everybody, as root of this machine says" sh -c "mkdir -p /mnt/here && mount -t nfs -o vers=4.2 127.0.0.1:/tank/share /mnt/here && chmod 1777 /mnt/here && umount /mnt/here"
    need "a client mounts with nothing else" mounts vers=4.2
    need "and sees who it may" there "df $MNT && touch $MNT/here && rm $MNT/here"
    need "so does one of version 3 that knows no port" there "mkdir -p /mnt/three && mount -t nfs -o vers=3,nolock $ADDRESS:/tank/share /mnt/three && touch /mnt/three/here && rm /mnt/three/here && umount /mnt/three"
    need "exports are listed" there "showmount -e $ADDRESS | grep -q /tank/share"
    need "a page of the manual" sh -c "man -w tally && man -w tally-from-zfs && man tally-init > /dev/null"
    tally doctor > /tmp/doctor; told=$?
    sed 's/^/# doctor: /' /tmp/doctor
    need "the doctor finds nothing that fails" test $told -le 1
    need "what programs for events are told is said in a file" sh -c "grep -q '^#TALLY_MAIL_TO=' /etc/default/tally-events && echo TALLY_MAIL_TO=ops >> /etc/default/tally-events"
    need "a program for events is one that root puts there" sh -c "printf '#!/bin/sh\necho \"\$TALLY_CLASS\" >> /var/lib/tally-events/heard\n' > /etc/tally/events.d/hear && chmod 755 /etc/tally/events.d/hear"
    need "a scrub" tally pool scrub -w tank
    need "it is told of the end" sh -c 'for _ in $(seq 40); do grep -qx scrub_finish /var/lib/tally-events/heard && exit 0; sleep 0.5; done; exit 1'

    mkdir -p /var/log/journal && journalctl --flush
    need "datasets that say where they are" sh -c "tally dataset create -o mountpoint=/home tank/home && tally dataset create tank/home/ann && tally mount -a && echo of ann > /home/ann/file"
    need "and one of /etc/fstab" sh -c "mkdir /srv/table && tally dataset create tank/table && echo '$TABLE' >> /etc/fstab && systemctl daemon-reload && mount /srv/table && echo of the table > /srv/table/file"
    need "they are mounted" have_mounts
    # Who is in it, and has a range locked and a file without a name open, sees nothing of it.
    sh -c "cd /home/ann && exec perl -e '\$| = 1; open(my \$f, \"+>\", \"gone\"); unlink(\"gone\"); my \$lock = pack(\"s s x4 q q l x4\", 1, 0, 0, 0, 0); fcntl(\$f, 6, \$lock) or die; print \"ready\\n\"; until (-e \"go\") { mkdir(\"round\") or die; rmdir(\"round\") or die; select(undef, undef, undef, 0.01) } syswrite(\$f, \"whole\") or die; \$f->sync; seek(\$f, 0, 0); read(\$f, my \$all, 9); print \"\$all\\n\"'" > /tmp/stays 2>&1 & stays=$!
    for _ in $(seq 100); do grep -q ready /tmp/stays && break; sleep 0.1; done
    need "a restart leaves them" systemctl restart tally
    need "they are mounted" have_mounts
    need "a second one does" systemctl restart tally
    touch /home/ann/go; wait $stays; told=$?
    sed 's/^/# who stays: /' /tmp/stays
    need "who was in it has seen nothing" sh -c "test $told = 0 && grep -qx whole /tmp/stays && rm /home/ann/go"
    need "and so does an end, and a start" sh -c "systemctl stop tally && ! grep -w fuse.tally /proc/self/mountinfo && systemctl start tally"
    need "they are mounted" have_mounts
    need "a daemon that is killed" sh -c "systemctl kill --signal=KILL tally && sleep 1"
    need "leaves no dead ones behind" have_mounts
    need "umount is ours, and says who is in the way" sh -c "cd /srv/table && ! umount /srv/table 2> /tmp/busy && grep -q 'is in it' /tmp/busy"
    need "nobody is" sh -c "umount /srv/table && ! mountpoint -q /srv/table && mount /srv/table"
    need "and mount again, to read alone" sh -c "mount -o remount,ro /srv/table && ! touch /srv/table/new 2> /dev/null && mount -o remount,rw /srv/table && touch /srv/table/new"
    need "what is in use is named, and stays" sh -c "cd /home/ann && ! tally pool export tank 2> /tmp/refused && grep -q 'is in it' /tmp/refused"
    tally doctor > /tmp/doctor || true; sed -n 's/.*mount /# doctor: &/p' /tmp/doctor
    need "the doctor sees them" grep -q 'has 3 datasets mounted' /tmp/doctor

    # An upgrade while a client is at work: it waits, and goes on.
    there "cd $MNT && tar --no-same-owner -xf $SAFE/tree.tar" & untar=$!
    for _ in $(seq 200); do [ "$(there "find $MNT/tree -type f 2> /dev/null | wc -l")" -lt 20 ] || break; sleep 0.1; done
    there=$(there "find $MNT/tree -type f | wc -l")
    note "$there of 300 files are there when the upgrade begins"
    need "a client is at work" test "$there" -lt 300
    before=$(systemctl show -p MainPID --value tally)
    need "the upgrade" apt-get install -y --no-install-recommends $SHARE/newer.deb
    need "another process serves" test "$(systemctl show -p MainPID --value tally)" != "$before"
    wait $untar; told=$?
    need "the untar went on and ended well" test $told = 0
    need "all is there" is_whole
    need "the machine's own mounts are there again" have_mounts
    need "what was written into a file of /etc is there" grep -qx TALLY_MAIL_TO=ops /etc/default/tally-events
    need "the version is the newer one" sh -c "dpkg-query -W -f '\${Version}' tally | grep -q newer"
    there "umount $MNT"
    goes_on_with again
    ;;
again)
    need "another machine" other_machine
    need "the server has started by itself" is_active tally tally-events
    need "the dataset is served behind a boot" mounts vers=4.2
    need "all is there" is_whole
    there "umount $MNT"
    need "the machine's own mounts are there behind a boot" have_mounts
    need "the first boot was left in order" sh -c "journalctl -b -1 -o cat -u tally-mount > /tmp/left && grep -q ^Stopped /tmp/left && ! grep -i -e failed -e 'in use' /tmp/left"
    need "no unit waits for itself" sh -c "journalctl -b -o cat > /tmp/boot && ! grep -i 'ordering cycle' /tmp/boot"
    need "a hook that is shipped is linked" sh -c "ln -s /usr/share/tally/events.d/mail /etc/tally/events.d/ && test -x /etc/tally/events.d/mail && test -d /var/lib/tally-events"
    need "the package can be removed" apt-get remove -y tally
    need "nothing is mounted" no_mounts
    need "nothing serves" sh -c "! systemctl is-active --quiet tally && ! command -v tally"
    need "its configuration stays" test -e /etc/tally/tally.toml
    before=$(picture)
    need "the package can be purged" apt-get purge -y tally
    need "its configuration is gone" test ! -e /etc/tally/tally.toml -a ! -e /etc/default/tally-events
    need "so is what programs for events had" test ! -e /var/lib/tally-events -a ! -L /etc/tally/events.d/mail
    need "a program that somebody wrote stays, and so does the list of pools" test -x /etc/tally/events.d/hear -a -d /var/lib/tally
    need "the pool is as it was" test "$(picture)" = "$before"
    need "it can be installed again" apt-get install -y --no-install-recommends $SHARE/newer.deb
    need "it answers" answers
    need "the pool comes back by itself" sh -c "tally pool list -H -o name | grep -qx tank"
    need "the machine's own mounts come back, too" have_mounts
    need "a client mounts again" mounts vers=4.2
    need "all is there, still" is_whole
    there "umount $MNT"
    finish
    ;;
esac
