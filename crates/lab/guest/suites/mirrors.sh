# Disks that come and go under a client that never stops writing: detach, attach, replace, a kill in the midst of
# a copy, and at the end the proof: every leg that was there from the start is wiped, and the copies serve alone.
. /tmp/library
if [ "$SERVER" != tally ]; then note "only this server has pools"; echo "0 passed, 0 failed, 1 skipped"; exit 0; fi
FILES=${FILES:-256}
tally() { (cd /tmp/state && "$TALLY" "$@"); }
tally_create() { "$TALLY" pool create tank mirror /dev/ubda /dev/ubdb mirror /dev/ubdc /dev/ubdd log mirror /dev/ubde /dev/ubdf; }
# The port answers before the pool is imported: a client has to wait then, and so has this.
until_imported() { local tries; for tries in $(seq 100); do tally pool list tank > /dev/null 2>&1 && return; sleep 0.1; done; }
state_is() { until_imported; [ "$(tally pool list -H -p tank | cut -f6)" = "$1" ] || { tally pool status tank; return 1; }; }
copying() { tally pool status tank | grep -q "$1 *RESILVERING"; }
# Waits for the moment in which the disk is being copied; the copy takes seconds.
until_copying() { local tries; for tries in $(seq 200); do copying "$1" && return; sleep 0.05; done; tally pool status tank; return 1; }
load() {
    local turn
    for turn in $(seq 1000); do
        [ ! -e /tmp/enough ] || return 0
        mkdir "$MNT/turn$turn" && tar -C "$MNT/turn$turn" -xf /tmp/source.tar || return
        echo "$turn" > /tmp/turns
    done
}
all_there() {
    local turn
    [ "$(cat /tmp/turns)" -ge 1 ] || return
    for turn in $(seq "$(cat /tmp/turns)"); do sums_match "$MNT/turn$turn" /tmp/sums.source || { echo "turn $turn"; return 1; }; done
}

small_files /tmp/source "$FILES"
tar -C /tmp/source -cf /tmp/source.tar .
sums /tmp/source > /tmp/sums.source
need "server starts" serve_start
need "mount" nfs_mount
load > /tmp/load.log 2>&1 & LOAD_PID=$! MOUNT_IN_USE=yes
need "a leg leaves" tally pool detach tank /dev/ubdb
need "and joins again" tally pool attach tank /dev/ubda /dev/ubdb
need "another is replaced" tally pool replace tank /dev/ubdc /dev/ubdg
need "a leg of the log leaves" tally pool detach tank /dev/ubde
need "and joins again" tally pool attach tank /dev/ubdf /dev/ubde
check "all disks are online" state_is ONLINE
tally pool replace tank /dev/ubdd /dev/ubdh > /tmp/replace.log 2>&1 & REPLACE_PID=$!
need "a copy is under way" until_copying /dev/ubdh
need "kill in the midst of the copy, and start" crash
wait "$REPLACE_PID"; replaced=$?
failed_with() { [ "$replaced" -ne 0 ] && cat /tmp/replace.log && [ -s /tmp/replace.log ]; }
SPOIL="replaced=0" check "the command says that it failed" failed_with
check "half a copy does not count" state_is DEGRADED
need "the half copied disk begins anew in its place" tally pool replace tank /dev/ubdh
need "the disk that was to go goes" tally pool detach tank /dev/ubdd
check "all disks are online again" state_is ONLINE
touch /tmp/enough
wait "$LOAD_PID"; loaded=$? MOUNT_IN_USE=
noticed_nothing() { cat /tmp/load.log; [ "$loaded" = 0 ]; }
SPOIL="loaded=1" check "the client noticed nothing" noticed_nothing
note "$(cat /tmp/turns) times $FILES files meanwhile"
need "remount" nfs_remount
check "checksums" all_there

# Wiped are the first mirror's leg that never left, the second's one copy, and the log's leg that never left.
sync; tally_kill
for disk in ubda ubdg ubdf; do dd if=/dev/zero of=/dev/$disk bs=1M oflag=direct 2> /dev/null; done
need "start with half of the disks" tally_start
check "the pool says so" state_is DEGRADED
need "remount over the copies" nfs_remount
check "checksums from the copies alone" all_there
for disk in ubda ubdg ubdf; do check "a new disk at $disk" tally pool replace tank "/dev/$disk"; done
check "whole again" state_is ONLINE
need "kill and start at last" crash
need "remount at last" nfs_remount
check "checksums at last" all_there
finish
