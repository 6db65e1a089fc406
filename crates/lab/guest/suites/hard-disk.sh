# Untar where the device dominates: a disk on which a durable write takes 8 ms and one thing is done at a time
# (`cargo xtask slow-disk --help`), log and pool on that one disk, against the kernel's own server on ext4 and XFS.
# All take their turns on a fresh disk in one boot. Each file waits for the disk 48 ms and more, so the fifth of a
# millisecond by which a guest is unfair to a server in user space does not decide.
. /tmp/library
FILES=${FILES:-512} ROUNDS=${ROUNDS:-3} DURABLE_US=${DURABLE_US:-8000} WRITE_US=${WRITE_US:-0}
CONTENDERS=$SERVER
[ "$SERVER" != tally ] || CONTENDERS="tally tally-fast-log knfsd-ext4 knfsd-xfs"
POOL_DISK=/dev/nbd0

attach() { slow_disk_attach nbd0 2048 "$DURABLE_US" "$WRITE_US"; }

# contend CONTENDER ROUND: one untar on a fresh disk. The server is started before and stopped after the clock.
contend() {
    local started counts_then milliseconds
    SERVER=${1%-fast-log} LOG_DISK=
    [ "$1" = "$SERVER" ] || LOG_DISK=/dev/ubdb
    need "round $2, $1: a fresh disk" attach
    rm -rf /tmp/state
    need "round $2, $1: server starts" serve_start
    need "round $2, $1: mount" nfs_mount
    mkdir -p "$MNT/warm" && echo x > "$MNT/warm/x"
    sync
    counts_then=$(slow_disk_counts nbd0) started=$(date +%s%N)
    need "round $2, $1: untar" tar -C "$MNT" -xf /tmp/source.tar
    milliseconds=$((($(date +%s%N) - started) / 1000000))
    # Only until now: an acknowledged file is durable, and what a server tidies up later nobody waits for.
    echo "$1 $milliseconds $counts_then $(slow_disk_counts nbd0)" >> /tmp/results
    rm -rf "$MNT/warm"
    check "round $2, $1: checksums" sums_match "$MNT" /tmp/sums.source
    need "round $2, $1: unmount" umount "$MNT"
    [ -z "$LOG_DISK" ] || need "round $2, $1: the log device is given back" sh -c "cd /tmp/state && $TALLY pool destroy tank"
    need "round $2, $1: server stops" serve_stop
    need "round $2, $1: the disk goes" slow_disk_detach nbd0
}
# Milliseconds of one contender: least, median, greatest.
spread() { awk -v c="$1" '$1 == c {print $2}' /tmp/results | sort -n | awk '{v[NR] = $1} END {print v[1], v[int((NR + 1) / 2)], v[NR]}'; }
median() { spread "$1" | cut -d' ' -f2; }
turns() { awk -v c="$1" '$1 == c {t += $8 - $5} END {print t}' /tmp/results; }
work_per_file() {
    awk -v c="$1" -v f="$FILES" '$1 == c {n += f; w += $6 - $3; l += $7 - $4; t += $8 - $5}
        END {printf "%.2f writes, %.2f flushes, %.2f turns", w / n, l / n, t / n}' /tmp/results
}

small_files /tmp/source "$FILES"
tar -C /tmp/source -cf /tmp/source.tar .
sums /tmp/source > /tmp/sums.source
modprobe nbd nbds_max=1 max_part=0
need "the model: a fresh disk" attach
started=$(date +%s%N)
need "the model: 100 durable writes" dd if=/dev/zero of=/dev/nbd0 bs=4k count=100 oflag=direct,dsync
note "a durable write of 4 KiB takes $((($(date +%s%N) - started) / 100000)) µs"
turned() { [ "$(cut -d' ' -f3 <<< "$counts")" = "$1" ]; }
counts=$(slow_disk_counts nbd0)
SPOIL="counts='100 0 99'" check "the model: 100 turns" turned 100
need "the model: the disk goes" slow_disk_detach nbd0

for round in $(seq "$ROUNDS"); do
    for contender in $CONTENDERS; do contend "$contender" "$round"; done
done
note "untar of $FILES files of 4 KiB, disk with $DURABLE_US µs a durable write, $WRITE_US µs a cached one, $ROUNDS rounds"
for contender in $CONTENDERS; do
    set -- "$contender" $(spread "$contender")
    note "$(printf '%-14s median %6d ms (%d to %d); a file: %s' "$1" "$3" "$2" "$4" "$(work_per_file "$1")")"
done
case $CONTENDERS in
    "tally "*)
        # less WHAT PEER
        less() { local ours theirs; ours=$("$1" tally) && theirs=$("$1" "$2") && [ "$ours" -lt "$theirs" ]; }
        as_slow() { turns() { echo 1000; }; median() { echo 1000; }; }
        # The turns are exact; the times hold on a machine that has nothing else to do.
        for peer in knfsd-ext4 knfsd-xfs; do
            SPOIL=as_slow check "fewer turns than $peer" less turns $peer
            SPOIL=as_slow check "ahead of $peer" less median $peer
        done
        ;;
esac
finish
