# Servers by time: the guest's clock counts instructions (`cargo xtask bench peers --by-time`, which sets CONTENDERS,
# VERSIONS, WORKLOADS, USERS, CACHE and FILES). Each cell is one run on a fresh disk, warmed up before the clock; it goes
# as one line of NAME=VALUE to the console.
#
# The disk takes 0.1 ms for each command, whatever its size, and lies in memory. CACHE=through: it has no cache, and a
# flush costs nothing; CACHE=back: it has a volatile one, and a flush is a command.
. /tmp/library
POOL_MIB=${POOL_MIB:-3072}
DISK_NAME=pool POOL_DISK=/dev/pool1 LOG_DISK=
USER_ID=1000
MOUNT_PORT=20048

tell() { echo "run $*"; }

configure() { # configure CONTENDER VERSION
    server=${1%%-*} mode=${1#*-}
    NFS_VERSION=$2
    # Without `noacl`, `cp -a` sets a mode by SETACL, of a protocol beside version 3, which knfsd answers before it is on a disk.
    case $2 in
        3) MOUNT_OPTIONS=vers=3,proto=tcp,nolock,hard,noacl ;;
        *) MOUNT_OPTIONS=vers=$2,proto=tcp,hard ;;
    esac
}
disk_make() {
    local disk=/sys/kernel/config/nullb/$DISK_NAME
    mkdir "$disk" || return
    for setting in size="$POOL_MIB" memory_backed=1 blocksize=4096 irqmode=2 completion_nsec=100000 discard=0; do
        echo "${setting#*=}" > "$disk/${setting%%=*}" || return
    done
    [ "$CACHE" != back ] || echo 64 > "$disk/cache_size"
    echo 1 > "$disk/power" || return
    # On a whole disk OpenZFS makes partitions of its own, and waits for their names, which nobody gives here.
    echo 'start=2048, type=83' | sfdisk --quiet --no-tell-kernel "/dev/$DISK_NAME" && blockdev --rereadpt "/dev/$DISK_NAME"
    local tries
    for tries in $(seq 100); do [ ! -b "$POOL_DISK" ] || return 0; sleep 0.1; done
    return 1
}
disk_drop() { echo 0 > "/sys/kernel/config/nullb/$DISK_NAME/power"; rmdir "/sys/kernel/config/nullb/$DISK_NAME"; }
start() {
    case $server in
        tally)
            rm -rf /tmp/state
            tally_first_start || return
            [ "$mode" = tally ] || (cd /tmp/state && "$TALLY" dataset set "delegations=$mode" tank) ;;
        knfsd) knfsd_start "$mode" ;;
        zfs) zfs_start && grace_ends ;;
    esac
}
stop() {
    case $server in
        tally) tally_stop ;;
        knfsd) knfsd_stop ;;
        zfs) rpc.nfsd 0; exportfs -ua; zpool destroy tank ;;
    esac
}
# OpenZFS, with everything as it comes, but the access times that knfsd's other file systems do not write either.
zfs_start() {
    modprobe zfs && knfsd_services && mkdir -p /mnt/served || return
    zpool create -f -o ashift=12 -o cachefile=none -O relatime=on -m /mnt/served tank "$POOL_DISK" || return
    exportfs -i -o rw,sync,no_root_squash,no_subtree_check,fsid=0,insecure 127.0.0.1:/mnt/served
    rpc.nfsd 8
    echo Y > /proc/fs/nfsd/v4_end_grace 2>/dev/null
    served_at /mnt/served / 2049 "$MOUNTD_PORT"
}

# Microseconds that the server's threads ran, and how often they were switched to.
server_counts() {
    local tasks
    case $server in
        tally) tasks=/proc/$TALLY_PID/task/* ;;
        *) tasks=$(for pid in $(pgrep -x nfsd); do echo "/proc/$pid"; done) ;;
    esac
    for task in $tasks; do cat "$task/schedstat" 2>/dev/null; done |
        awk '{ran += $1; turns += $3} END {printf "%d %d", ran / 1000, turns}'
}
counts() { # counts MOMENT
    local moment=$1
    set -- $(disk_counts "$DISK_NAME") $(rpc_count) $(server_counts)
    printf '%s ' "$moment.writes=$1" "$moment.flushes=$2" "$moment.sectors=$3" "$moment.rpcs=$4" \
        "$moment.server_us=$5" "$moment.turns=$6"
}

as() { # as USER COMMAND…
    local user=$1; shift
    case $user in
        root) "$@" ;;
        *) setpriv --reuid="$USER_ID" --regid="$USER_ID" --clear-groups "$@" ;;
    esac
}
work() { # work WORKLOAD USER FOLDER SOURCE
    case $1 in
        untar) as "$2" tar -C "$3" -xf "$4.tar" ;;
        copy) as "$2" cp -a "$4" "$3/copy" ;;
        library) as "$2" cp -r "$4" "$3/copy" ;;
        remove) as "$2" rm -r "$3/copy" ;;
    esac
}
# What arrived: how many files, and of one folder in ten what is in them, whose they are, and from when.
listing() { (cd "$1" && find . -path "*0/f*" -printf '%P %s %m %U %G %T@\n' | sort); }
arrived() { # arrived WORKLOAD USER FOLDER
    local folder=$3 tenth
    case $1 in remove) empty "$folder"; return ;; copy | library) folder=$3/copy ;; esac
    [ "$(find "$folder" -type f | wc -l)" = "$FILES" ] || { echo "not all files are there"; return 1; }
    for tenth in "$folder"/d*0; do diff -r "/tmp/many/${tenth##*/}" "$tenth" || return; done
    # Of these alone a file is its source's in all that `ls -l` shows. Linux' server takes no times from a client that was
    # given them to keep, if they are from before: then a tree is not what was unpacked, and is no peer's figure.
    case $1-$2 in untar-root | copy-*) ;; *) return 0 ;; esac
    listing /tmp/many > /tmp/is.sent
    listing "$folder" > /tmp/is.there
    cmp /tmp/is.sent /tmp/is.there && return
    TIMES=lost
    diff /tmp/is.sent /tmp/is.there | head -n 6
    sed -i 's/ [^ ]*$//' /tmp/is.sent /tmp/is.there
    [ "$server" != tally ] && cmp /tmp/is.sent /tmp/is.there
}
prepare() {
    small_files /tmp/many "$FILES" && small_files /tmp/few 64 || return
    chown -R "$USER_ID:$USER_ID" /tmp/many /tmp/few
    # A time that is not now; archives have whole seconds.
    find /tmp/many /tmp/few -exec touch -d '2024-03-05 06:07:08' {} +
    tar -C /tmp/many -cf /tmp/many.tar . && tar -C /tmp/few -cf /tmp/few.tar .
    chmod 755 /tmp
}
cell() { # cell CONTENDER VERSION WORKLOAD USER
    local at="$1, v$2, $3, $4" before after ended_counts worked gone ended started
    configure "$1" "$2"
    need "$at: a fresh disk" disk_make
    need "$at: server starts" start
    need "$at: mount" nfs_mount
    need "$at: folders" sh -c "mkdir $MNT/warm $MNT/work && chown $USER_ID $MNT/warm $MNT/work"
    need "$at: warm" work "${3/remove/library}" "$4" "$MNT/warm" /tmp/few
    [ "$3" != remove ] || need "$at: what goes" work library "$4" "$MNT/work" /tmp/many
    need "$at: a new mount" nfs_remount
    need "$at: warm again" stat "$MNT/work"
    sync
    before=$(counts before) started=$(date +%s%N)
    work "$3" "$4" "$MNT/work" /tmp/many > /tmp/check.log 2>&1 || { tail -n 5 /tmp/check.log; need "$at: work" false; }
    worked=$(date +%s%N)
    after=$(counts worked) gone=$(date +%s%N)
    umount "$MNT" || need "$at: unmount" false
    ended=$(date +%s%N)
    ended_counts=$(counts ended)
    TIMES=kept
    need "$at: mount to look" nfs_mount
    need "$at: all is there" arrived "$3" "$4" "$MNT/work"
    tell "contender=$1 version=$2 workload=$3 user=$4 files=$FILES cache=$CACHE work_us=$(((worked - started) / 1000))" \
        "unmount_us=$(((ended - gone) / 1000)) times=$TIMES $before $after $ended_counts"
    need "$at: unmount" umount "$MNT"
    need "$at: server stops" stop
    need "$at: the disk goes" disk_drop
}

exec 2>&1
need "what is copied" prepare
echo "kernel $(uname -r), OpenZFS $(modinfo -F version zfs 2> /dev/null)"
for cell in $CELLS; do
    cell $(echo "$cell" | tr , ' ')
done
finish
