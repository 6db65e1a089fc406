# Every contender with every workload, in turns, each time on a fresh disk (`cargo xtask bench peers`, which sets
# CONTENDERS, WORKLOADS, ROUNDS, DISK and the sizes). What a run took goes as one line of NAME=VALUE to the share;
# nothing is judged here but that all files arrived.
#
# Disks: ubda is the main one, ubdb and ubdc are for logs and journals. They are written out once, so that no contender
# pays for the holes of the host's files. Where DISK is not `fast`, nbd0 takes the main one's place, and where it is
# `two-hard-disks`, nbd1 the log's.
. /tmp/library
RUNS=/media/share/runs
NFS_PORT=2050 MOUNT_PORT=2051
POOL_MIB=1024 SPARE_MIB=256
POOL_DISK=/dev/ubda LOG_DISK=/dev/ubdb
# Without `noacl`, `cp -a` sets a mode by SETACL, of a protocol beside NFS, from the servers that know it. knfsd answers
# that before it is on a disk, so a peer would get the same tree with a promise less for each file.
MOUNT_OPTIONS=$MOUNT_OPTIONS,noacl
# Written at both ends, where labels, superblocks and logs are; in between nobody looks before writing.
WIPED_MIB=4

tell() { echo "$*" >> "$RUNS"; }

# ---- contenders: a name is SERVER[-FILESYSTEM][-MODE] ---------------------------------------------------------
configure() {
    server=${1%%-*} filesystem= mode=
    case $1 in
        tally) ;;
        tally-*) mode=${1#tally-} ;;
        *) filesystem=${1#*-}; case $filesystem in *-*) mode=${filesystem#*-} filesystem=${filesystem%%-*} ;; esac ;;
    esac
    EXPORT_SYNC=sync JOURNAL_DISK= POOL_LOG=
    case $server-$mode in
        *-async) EXPORT_SYNC=async ;;
        tally-log) POOL_LOG="log $LOG_DISK" ;;
        tally-log2) POOL_LOG="log mirror $LOG_DISK /dev/ubdc" ;;
        tally-memory) POOL_LOG="log /dev/ram0" ;;
        zfs-log) POOL_LOG="log $LOG_DISK" ;;
        knfsd-log) JOURNAL_DISK=$LOG_DISK ;;
    esac
}
tally_create() { "$TALLY" pool create -f tank "$POOL_DISK" $POOL_LOG; }
start() {
    case $server in
        tally)
            rm -rf /tmp/state
            tally_first_start || return
            [ "$mode" != disabled ] || (cd /tmp/state && "$TALLY" dataset set sync=disabled tank) ;;
        knfsd) knfsd_start "$filesystem" ;;
        ganesha) ganesha_start "$filesystem" "$NFS_PORT" "$MOUNT_PORT" ;;
        zfs) zfs_start ;;
    esac
}
stop() {
    case $server in
        tally) tally_stop ;;
        knfsd) knfsd_stop ;;
        ganesha) ganesha_stop ;;
        zfs) rpc.nfsd 0; exportfs -ua; zpool destroy tank ;;
    esac
}
# OpenZFS, with everything as it comes, but the access times that knfsd's other file systems do not write either.
zfs_start() {
    knfsd_services && mkdir -p /mnt/served || return
    zpool create -f -o ashift=12 -o cachefile=none -O relatime=on -m /mnt/served tank "$POOL_DISK" $POOL_LOG || return
    exportfs -i -o rw,sync,no_root_squash,no_subtree_check,fsid=0,insecure 127.0.0.1:/mnt/served
    rpc.nfsd 8
    grace_ends
    served_at /mnt/served / 2049 "$MOUNTD_PORT"
}
# Why a contender cannot run here; nothing if it can.
missing() {
    case $1 in
        knfsd-btrfs*) command -v mkfs.btrfs > /dev/null || echo "the guest has no btrfs-progs" ;;
        ganesha-*)
            [ "$NFS_VERSION" = 3 ] || echo "it is configured for version 3 alone here"
            command -v ganesha.nfsd > /dev/null || echo "the guest has no package nfs-ganesha-vfs" ;;
        zfs*)
            modprobe zfs 2> /dev/null && command -v zpool > /dev/null ||
                echo "the guest has no module zfs for its kernel, or no zpool" ;;
        tally-memory)
            modprobe brd rd_nr=1 rd_size=$((SPARE_MIB * 1024)) 2> /dev/null
            [ -b /dev/ram0 ] || echo "the guest has no /dev/ram0" ;;
    esac
}

# ---- disks ----------------------------------------------------------------------------------------------------
wipe() { # wipe DISK MIB
    dd if=/dev/zero of="$1" bs=1M count=$WIPED_MIB oflag=direct 2> /dev/null
    dd if=/dev/zero of="$1" bs=1M count=$WIPED_MIB seek=$(($2 - WIPED_MIB)) oflag=direct 2> /dev/null
}
fresh_disks() {
    local disk
    for disk in /dev/ubdb /dev/ubdc /dev/ram0; do [ ! -b $disk ] || wipe $disk $SPARE_MIB; done
    case $DISK in
        fast) wipe "$POOL_DISK" $POOL_MIB ;;
        hard-disk) slow_disk_attach nbd0 $POOL_MIB "$DURABLE_US" "$WRITE_US" ;;
        two-hard-disks)
            slow_disk_attach nbd0 $POOL_MIB "$DURABLE_US" "$WRITE_US" &&
                slow_disk_attach nbd1 $SPARE_MIB "$DURABLE_US" "$WRITE_US" ;;
    esac
}
put_disks_away() {
    case $DISK in
        hard-disk) slow_disk_detach nbd0 ;;
        two-hard-disks) slow_disk_detach nbd0 && slow_disk_detach nbd1 ;;
    esac
}
# disk_words MOMENT: what the kernel has counted of each disk, and a slow one itself.
disk_words() {
    local role disk name
    for role in main:$POOL_DISK log:$LOG_DISK log2:/dev/ubdc; do
        name=${role%%:*} disk=${role##*/}
        set -- "$1" $(disk_counts "$disk")
        printf '%s ' "$1.$name.writes=$2" "$1.$name.flushes=$3" "$1.$name.sectors=$4"
        case $disk in
            nbd*)
                set -- "$1" $(slow_disk_counts "$disk")
                printf '%s ' "$1.$name.own_writes=$2" "$1.$name.own_flushes=$3" "$1.$name.turns=$4" ;;
        esac
    done
}
# What our own server counts: frames of its log.
frame_words() { # frame_words PREFIX
    [ "$server" = tally ] || return 0
    (cd /tmp/state && "$TALLY" pool status --json tank) | python3 -c "
import json, sys
print('$1.frames=%d' % sum(lane['frames'] for lane in json.load(sys.stdin)[0]['lanes']))"
}
# Microseconds that 4 KiB with O_DSYNC take on a log device: the mean of 500.
dsync_us() {
    local started; started=$(date +%s%N)
    dd if=/dev/zero of="$1" bs=4k count=500 oflag=direct,dsync conv=notrunc 2> /dev/null
    echo $((($(date +%s%N) - started) / 500000))
}

# ---- workloads ------------------------------------------------------------------------------------------------
prepare() {
    small_files /tmp/untar "$FILES"
    tar -C /tmp/untar -cf /tmp/source.tar .
    python3 - "$COPIED" "$LIBRARY_FILES" <<'PY'
import os, random, sys
copied, library = int(sys.argv[1]), int(sys.argv[2])
r = random.Random(1)
def write(path, size):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f: f.write(os.urandom(size))
# The classes of `tally bench copy`, in its proportions but for the mailbox: settings, projects, documents, pictures.
for name, share, least, greatest, folders in (("settings", 2000, 200, 4096, 60), ("projects", 700, 4096, 32768, 32),
                                              ("documents", 120, 32768, 262144, 0),
                                              ("pictures", 16, 1 << 20, 4 << 20, 0)):
    below = max(folders * copied // 2836, 1) if folders else 0
    for i in range(share * copied // 2836 or 1):
        inner = f"/{r.randrange(below)}" if below else ""
        write(f"/tmp/copy/{name}{inner}/{i}", r.randint(least, greatest))
for i in range(library): write(f"/tmp/library-source/{i // 100:03}/{i:06}", r.randint(1024, 8192))
PY
}
# work WORKLOAD FOLDER: the clock runs.
work() {
    case $1 in
        untar) tar -C "$2" -xf /tmp/source.tar ;;
        copy) cp -a /tmp/copy "$2/copy" ;;
        library) cp -r /tmp/library-source "$2/library" ;;
        # A file's ends are opened and closed one after the other, in one process: to start one costs 20 ms in a guest.
        loop) python3 -c "
for i in range($LOOPS):
    with open('$2/loop', 'w') as f: f.write(str(i))" ;;
        create) python3 -c "
import os
for i in range($CREATES): os.close(os.open(f'$2/{i}', os.O_CREAT | os.O_WRONLY))" ;;
    esac
}
items() {
    case $1 in
        untar) echo "$FILES" ;;
        copy) find /tmp/copy -type f | wc -l ;;
        library) echo "$LIBRARY_FILES" ;;
        loop) echo "$LOOPS" ;;
        create) echo "$CREATES" ;;
    esac
}
arrived() { # arrived WORKLOAD FOLDER, after a new mount
    case $1 in
        untar) diff -r /tmp/untar "$2" ;;
        copy) diff -r /tmp/copy "$2/copy" ;;
        library) diff -r /tmp/library-source "$2/library" ;;
        loop) [ "$(cat "$2/loop")" = $((LOOPS - 1)) ] ;;
        create) [ "$(find "$2" -type f | wc -l)" = "$CREATES" ] ;;
    esac
}

# judge CONTENDER: what the referee of `tally bench` says of it, by the kernel's counters of all disks that it uses.
# Memory is no disk, and is not judged.
judge() {
    local at="$1, judged" url
    configure "$1"
    case $server in
        tally) url=nfs://127.0.0.1:$PORT/tank ;;
        ganesha) url="nfs://127.0.0.1:$NFS_PORT/mnt/served?mountport=$MOUNT_PORT" ;;
        *) url="nfs://127.0.0.1:2049/mnt/served?mountport=$MOUNTD_PORT" ;;
    esac
    need "$at: fresh disks" fresh_disks
    need "$at: server starts" start
    need "$at: the probe" "$TALLY" bench probe --runs 1 --quiet 0 --target "$url" --device "$POOL_DISK" \
        --device "$LOG_DISK" --device /dev/ubdc -o /tmp/probe.json
    python3 - "$1" >> "$RUNS" <<'PY'
import json, sys
report = json.load(open("/tmp/probe.json"))
words = [f"contender={sys.argv[1]}", f"is={report['verdict']['is']}"]
for kind in report["runs"][0]["findings"]["kinds"]:
    words.append(f"{kind['name'].replace(' ', '_')}={kind['durable']}/{kind['replies']}")
print("verdict", *words)
PY
    need "$at: server stops" stop
    need "$at: the disks go" put_disks_away
}

# contend CONTENDER WORKLOAD ROUND: one run on a fresh disk. The server starts before the clock, and stops after it.
contend() {
    local at="round $3, $1, $2" before after started ms rpcs durable
    configure "$1"
    need "$at: fresh disks" fresh_disks
    need "$at: server starts" start
    need "$at: mount" nfs_mount
    need "$at: warm" sh -c "mkdir $MNT/warm $MNT/work && echo x > $MNT/warm/x"
    sync
    before="$(disk_words before) $(frame_words before)" rpcs=$(rpc_count) durable=$(durable_count) started=$(date +%s%N)
    need "$at: work" work "$2" "$MNT/work"
    ms=$((($(date +%s%N) - started) / 1000000))
    rpcs=$(($(rpc_count) - rpcs)) durable=$(($(durable_count) - durable))
    after="$(disk_words after) $(frame_words after)"
    need "$at: a new mount" nfs_remount
    need "$at: all is there" arrived "$2" "$MNT/work"
    need "$at: unmount" umount "$MNT"
    need "$at: server stops" stop
    tell "run contender=$1 workload=$2 round=$3 items=$(items "$2") ms=$ms rpcs=$rpcs durable=$durable" \
        "$before $after $(disk_words settled)"
    need "$at: the disks go" put_disks_away
    note "$at: $ms ms"
}

exec 2>&1
modprobe nbd nbds_max=2 max_part=0
for disk in "ubda $POOL_MIB" "ubdb $SPARE_MIB" "ubdc $SPARE_MIB"; do
    set -- $disk
    need "$1 is written out" dd if=/dev/zero of="/dev/$1" bs=1M count="$2" oflag=direct
done
[ "$DISK" = fast ] || POOL_DISK=/dev/nbd0
[ "$DISK" != two-hard-disks ] || LOG_DISK=/dev/nbd1
need "what is copied" prepare
contenders=
for contender in $CONTENDERS; do
    reason=$(missing "$contender")
    if [ -z "$reason" ]; then
        contenders="$contenders $contender"
    else
        tell "skip contender=$contender $reason"; note "$contender is skipped: $reason"
    fi
done
durable_write_unit ubdb
tell "unit writes=$unit_writes flushes=$unit_flushes kernel=$(uname -r)"
if [ "$JUDGED" = yes ]; then
    for contender in $contenders; do [ "$contender" = tally-memory ] || judge "$contender"; done
fi
for round in $(seq "$ROUNDS"); do
    for workload in $WORKLOADS; do
        for contender in $contenders; do
            tell "dsync us=$(dsync_us /dev/ubdb)"
            contend "$contender" "$workload" "$round"
        done
    done
done
finish
