# What every suite uses: devices, the server under test or a peer, mounts, counters, checks.
# A suite says `check NAME COMMAND…` for each thing it verifies; the last line counts them. Each is carried out twice:
# before it counts, it has to fail in a world that is spoiled (see `succeeds_spoiled`).
set -u
passed=0 failed=0
PORT=${PORT:-2049} MOUNTD_PORT=20048
TALLY=/tmp/tally
NFS_VERSION=${NFS_VERSION:-3}
case $NFS_VERSION in
    3) MOUNT_OPTIONS=vers=3,proto=tcp,nolock,hard ;;
    *) MOUNT_OPTIONS=vers=$NFS_VERSION,proto=tcp,hard ;;
esac
MNT=/mnt/tank
# Linux' own server hands out layouts though nobody asks for pNFS, and its client then waits for seconds behind each WRITE.
mkdir -p /run/modprobe.d && printf 'install %s /bin/false\n' nfs_layout_flexfiles blocklayoutdriver nfs_layout_nfsv41_files > /run/modprobe.d/lab.conf
# Where a server keeps its data, and where this one keeps its log; without a log device the log lies in the pool.
POOL_DISK=/dev/ubda
LOG_DISK=/dev/ubdb

note() { echo "# $*"; }
check() {
    local name=$1; shift
    local started=$SECONDS
    if [ -z "${NEEDED:-}" ] && succeeds_spoiled "$@"; then
        failed=$((failed + 1)); echo "FAIL $name: succeeds in a spoiled world too: $*"; sed 's/^/     /' /tmp/check.log
    fi
    if "$@" > /tmp/check.log 2>&1; then
        passed=$((passed + 1)); echo "ok   $name ($((SECONDS - started)) s)"
    else
        failed=$((failed + 1)); echo "FAIL $name: $*"; tail -n 25 /tmp/check.log | sed 's/^/     /'
        [ -z "${NEEDED:-}" ] || finish
    fi
}
# Carries a check out where it must fail: the mount is hidden by an empty folder that nobody can write to, and the
# server's command only fails. Whatever succeeds there as well sees nothing. What has to be wrong in another way, or
# looks at variables, is told by SPOIL=COMMAND before `check`; it is run in the shell that the check is run in. While
# MOUNT_IN_USE is set, somebody else works in the mount, and it stays as it is.
succeeds_spoiled() {
    local here=$PWD outcome
    hide() {
        [ -z "${MOUNT_IN_USE:-}" ] || return 0
        mkdir -p "$MNT" && mount -t tmpfs -o size=16m spoiled "$MNT" &&
            mkdir -p "$here" && cd "$here" && mount -o remount,ro "$MNT"
    }
    (
        hide && TALLY=/bin/false && eval "${SPOIL:-}" || exit 0
        "$@"
    ) > /tmp/check.log 2>&1
    outcome=$?
    [ "$(awk -v folder="$MNT" '$2 == folder {type = $3} END {print type}' /proc/mounts)" != tmpfs ] || umount "$MNT"
    return "$outcome"
}
# For SPOIL: there are these folders.
there_are() { mount -o remount,rw,size=512m "$MNT" && mkdir -p "$@"; }
# For SPOIL: there are these folders, and nobody gets rid of them.
there_stay() { there_are "$@" && mount -o remount,ro "$MNT"; }
# A check without which the rest makes no sense.
need() { NEEDED=1 check "$@"; }
finish() {
    echo "$passed passed, $failed failed, 0 skipped"
    [ "$failed" = 0 ] && [ "$passed" -gt 0 ]
    exit
}

# ---- counters: exact, whatever the machine ------------------------------------------------------------------
# Fields of /sys/block/X/stat, counted from 1: 5 writes, 7 sectors written, 16 flushes.
disk_counts() { awk '{print $5, $16, $7}' "/sys/block/$1/stat"; }
rpc_count() { awk '/^rpc/ {print $2}' /proc/net/rpc/nfs; }
# Requests whose reply promises something: SETATTR, WRITE (small files go FILE_SYNC), CREATE to LINK, COMMIT.
# Of version 4: WRITE, COMMIT, OPEN by name (of a suite that makes files), SETATTR, and REMOVE to CREATE.
durable_count() {
    awk -v version="$NFS_VERSION" '
        /^proc3/ && version == 3 {print $5 + $10 + $11 + $12 + $13 + $14 + $15 + $16 + $17 + $18 + $24}
        /^proc4/ && version != 3 {print $5 + $6 + $7 + $12 + $24 + $25 + $26 + $27 + $28}' /proc/net/rpc/nfs
}
counts_before() {
    sync; rpcs_before=$(rpc_count) durable_before=$(durable_count)
    for disk in $DISKS; do eval "before_$disk='$(disk_counts "$disk")'"; done
}
# counts_after FILES prints device work and requests, in all and per file, and leaves them in variables.
counts_after() {
    local files=$1 disk; rpcs=$(($(rpc_count) - rpcs_before)); durable=$(($(durable_count) - durable_before))
    echo "count rpcs $rpcs per_file $(ratio $rpcs $files) durable $durable per_file $(ratio $durable $files)"
    for disk in $DISKS; do
        eval "set -- \$before_$disk"; local w=$1 f=$2 s=$3
        set -- $(disk_counts "$disk")
        eval "writes_$disk=$(($1 - w)) flushes_$disk=$(($2 - f))"
        echo "count $disk writes $(($1 - w)) per_file $(ratio $(($1 - w)) $files) flushes $(($2 - f)) per_file $(ratio $(($2 - f)) $files) KiB $((($3 - s) / 2))"
    done
}
# All of the durable writes that were promised, and no others: to be checked behind counts_after.
one_log_write() { between 0.98 "$(ratio "$(ratio "$writes_ubdb" "$unit_writes")" "$durable")" 1.02; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN {printf "%.3f", b ? a / b : 0}'; }
# How this kernel counts one durable write of 4 KiB to a raw disk. On 6.1 without FUA it is two writes and two flushes:
# the write with its flush, then a flush by fsync, which is counted as an empty write too.
durable_write_unit() {
    set -- "$1" $(disk_counts "$1")
    dd if=/dev/zero of="/dev/$1" bs=4k count=200 oflag=direct,dsync conv=notrunc 2>/dev/null
    set -- "$2" "$3" $(disk_counts "$1")
    unit_writes=$(ratio $(($3 - $1)) 200) unit_flushes=$(ratio $(($4 - $2)) 200)
    echo "count a durable write is $unit_writes writes and $unit_flushes flushes of a disk here"
}
# between LOW VALUE HIGH
between() { awk -v l="$1" -v v="$2" -v h="$3" 'BEGIN {exit !(l <= v && v <= h)}'; }

# ---- peers ---------------------------------------------------------------------------------------------------
# knfsd_start ext4|xfs|btrfs. EXPORT_SYNC=async exports it so; with JOURNAL_DISK the journal lies there, and of ext4
# all data goes through it. Nothing is discarded, and nothing is left to be initialised beside the work.
knfsd_start() {
    served_make "$1" && knfsd_services || return
    exportfs -i -o "rw,${EXPORT_SYNC:-sync},no_root_squash,no_subtree_check,fsid=0,insecure" 127.0.0.1:/mnt/served
    # Newer ones leave it out.
    [ "$NFS_VERSION" != 4.0 ] || echo +4.0 > /proc/fs/nfsd/versions
    rpc.nfsd 8
    grace_ends
    served_at /mnt/served / 2049 "$MOUNTD_PORT"
}
# served_at PATH PATH_OF_VERSION_4 PORT MOUNT_PORT: where the client finds it. The port mapper need not be asked: another server that was here may have
# taken its entries along.
served_at() {
    case $NFS_VERSION in
        3) EXPORT=$1 MOUNT_EXTRA=,port=$3,mountport=$4,mountproto=tcp ;;
        *) EXPORT=$2 MOUNT_EXTRA=,port=$3 ;;
    esac
}
# served_make FILESYSTEM makes one on the pool's disk, and mounts it.
served_make() {
    local journal=${JOURNAL_DISK:-} options=defaults
    local ext4="-q -F -b 4096 -E nodiscard,lazy_itable_init=0,lazy_journal_init=0"
    case $1 in
        ext4)
            if [ -n "$journal" ]; then
                options=data=journal
                mke2fs -q -F -b 4096 -O journal_dev "$journal" && mkfs.ext4 $ext4 -J "device=$journal" "$POOL_DISK"
            else
                mkfs.ext4 $ext4 "$POOL_DISK"
            fi ;;
        xfs)
            [ -z "$journal" ] || options=logdev=$journal
            mkfs.xfs -q -f -K ${journal:+-l logdev=$journal,size=64m} "$POOL_DISK" ;;
        btrfs) mkfs.btrfs -q -f -K "$POOL_DISK" ;;
    esac || return
    mkdir -p /mnt/served && mount -t "$1" -o "$options" "$POOL_DISK" /mnt/served
}
# What knfsd leans on; started once and kept, whatever is exported afterwards.
knfsd_services() {
    [ -z "${KNFSD_SERVICES:-}" ] || return 0
    mount -t nfsd nfsd /proc/fs/nfsd
    mount -t rpc_pipefs pipefs /var/lib/nfs/rpc_pipefs
    # Debian lets mountd look groups up in the server's own files; a client's groups shall count here.
    mount --bind /dev/null /etc/nfs.conf
    port_mapper_start; nfsdcld; rpc.statd --no-notify
    rpc.mountd --port "$MOUNTD_PORT" || return
    KNFSD_SERVICES=started
}
# Both: as long as version 3's locks may be claimed, version 4 locks nothing either, and nobody is given a file to keep. Refused where
# nobody waits for the end of one, which is no failure.
grace_ends() { { echo Y > /proc/fs/nfsd/v4_end_grace; echo Y > /proc/fs/lockd/nlm_end_grace; } 2>/dev/null; true; }
knfsd_stop() { rpc.nfsd 0; exportfs -ua; umount /mnt/served; }
port_mapper_start() { pgrep -x rpcbind > /dev/null || rpcbind -w; }
# NFS-Ganesha over what served_make makes, by /tmp/ganesha.conf, on ports of its own.
ganesha_start() { # ganesha_start FILESYSTEM NFS_PORT MOUNT_PORT
    served_make "$1" && port_mapper_start || return
    # It looks its own address up as the resolver does for strangers, which takes a host with nothing but 127.0.0.1 for
    # one without a network.
    ip address replace 192.0.2.1/32 dev lo
    mkdir -p /run/ganesha /var/lib/nfs/ganesha
    ganesha.nfsd -F -f /tmp/ganesha.conf -p /run/ganesha/pid -L /tmp/ganesha.log -N NIV_EVENT & GANESHA_PID=$!
    served_at /mnt/served /mnt/served "$2" "$3"
    local tries
    for tries in $(seq 100); do
        (exec 3<> "/dev/tcp/127.0.0.1/$3") 2>/dev/null && return
        kill -0 "$GANESHA_PID" || break
        sleep 0.1
    done
    tail -n 20 /tmp/ganesha.log; return 1
}
ganesha_stop() {
    kill "$GANESHA_PID"; wait "$GANESHA_PID"
    umount /mnt/served
}

# ---- the server under test -------------------------------------------------------------------------------------
# Pool and log lie on two disks where a suite does not say otherwise, so their writes are counted apart.
tally_create() { "$TALLY" pool create -f tank "$POOL_DISK" ${LOG_DISK:+log "$LOG_DISK"}; }
# tally_start [ARGUMENT…] starts the daemon, by SERVE_WORDS too, and waits until it answers on its port.
tally_start() {
    mkdir -p /tmp/state; cd /tmp/state || return
    echo 'first_pool = false' > config.toml
    "$TALLY" serve --config config.toml --port "$PORT" ${SERVE_WORDS:-} "$@" >> /tmp/tally.log 2>&1 &
    TALLY_PID=$!
    cd /tmp || return
    local tries
    for tries in $(seq 600); do
        (exec 3<> "/dev/tcp/127.0.0.1/$PORT") 2>/dev/null && break
        kill -0 "$TALLY_PID" 2>/dev/null || { echo "the server went away:"; tail -n 20 /tmp/tally.log; return 1; }
        sleep 0.1
    done
    EXPORT=/tank MOUNT_EXTRA=,port=$PORT
    [ "$NFS_VERSION" != 3 ] || MOUNT_EXTRA=$MOUNT_EXTRA,mountport=$PORT,mountproto=tcp
}
tally_first_start() { # tally_first_start [ARGUMENT…]
    tally_start "$@" || return
    (cd /tmp/state && tally_create) && (cd /tmp/state && "$TALLY" dataset set "sharenfs=127.0.0.1(rw,no_root_squash)" tank)
}
tally_stop() { kill -TERM "$TALLY_PID"; wait "$TALLY_PID"; }
tally_kill() { kill -KILL "$TALLY_PID"; wait "$TALLY_PID" 2>/dev/null; return 0; }

# In reverse of `serve_start`, whose arguments are for our server alone; what was served stays on its disks.
serve_stop() { case $SERVER in knfsd-*) knfsd_stop ;; *) tally_stop ;; esac; }
serve_start() { case $SERVER in knfsd-*) knfsd_start "${SERVER#knfsd-}" ;; *) tally_first_start "$@" ;; esac; }
nfs_mount() { # nfs_mount [FOLDER [OPTIONS [PATH]]]
    local folder=${1:-$MNT}
    mkdir -p "$folder"
    mount -t nfs -o "$MOUNT_OPTIONS$MOUNT_EXTRA${2:+,$2}" "127.0.0.1:${3:-$EXPORT}" "$folder"
}
nfs_remount() { umount "$MNT" && nfs_mount; }
# Kills the server without warning and starts it again, with the mount in place: the client has to get over it.
crash() {
    case $SERVER in
        knfsd-*)
            rpc.nfsd 0; rpc.nfsd 8 || return
            sleep 1; grace_ends ;;
        *) tally_kill; tally_start ;;
    esac
}

# ---- network block devices: disks of our own making ---------------------------------------------------------
# The kernel's side of one: greets the server, hands the connection over, and waits until it is cut.
cat > /tmp/nbd.py <<'PY'
import fcntl, os, socket, struct, sys
SET_SOCK, SET_BLKSIZE, DO_IT, CLEAR_SOCK, SET_SIZE_BLOCKS, DISCONNECT, SET_FLAGS = (0xab00 + n for n in (0, 1, 3, 4, 7, 8, 10))
device = os.open("/dev/" + sys.argv[1], os.O_RDWR)
if sys.argv[2] == "detach":
    fcntl.ioctl(device, DISCONNECT); fcntl.ioctl(device, CLEAR_SOCK); sys.exit()
disk = socket.socket(socket.AF_UNIX); disk.connect(sys.argv[2])
assert disk.recv(18, socket.MSG_WAITALL)[:16] == b"NBDMAGICIHAVEOPT"
disk.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 0))
size, flags = struct.unpack(">QH", disk.recv(10, socket.MSG_WAITALL))
fcntl.ioctl(device, SET_BLKSIZE, 512); fcntl.ioctl(device, SET_SIZE_BLOCKS, size // 512)
fcntl.ioctl(device, SET_FLAGS, flags); fcntl.ioctl(device, SET_SOCK, disk.fileno())
fcntl.ioctl(device, DO_IT)
PY
nbd_attach() { # nbd_attach DEVICE SOCKET
    python3 /tmp/nbd.py "$1" "$2" & eval "CLIENT_PID_$1=$!"
    until [ "$(cat "/sys/block/$1/size")" -gt 0 ]; do kill -0 $! || return; sleep 0.1; done
}
nbd_detach() { # nbd_detach DEVICE
    python3 /tmp/nbd.py "$1" detach
    eval "wait \$CLIENT_PID_$1"
}

# ---- disks that take their time (`cargo xtask slow-disk --help`) ---------------------------------------------
slow_disk_attach() { # slow_disk_attach DEVICE MIB DURABLE_US WRITE_US
    rm -f "/tmp/slow.$1."* || return
    /tmp/xtask slow-disk "/tmp/slow.$1.disk" --mib "$2" --socket "/tmp/slow.$1.socket" --counts "/tmp/slow.$1.counts" \
        --durable-us "$3" --write-us "$4" & eval "SLOW_DISK_PID_$1=$!"
    until [ -S "/tmp/slow.$1.socket" ]; do kill -0 $! || return; sleep 0.1; done
    nbd_attach "$1" "/tmp/slow.$1.socket"
}
slow_disk_detach() { # slow_disk_detach DEVICE
    nbd_detach "$1"
    # The disk serves for ever; it is told to go, and that is no failure.
    eval "kill \$SLOW_DISK_PID_$1; wait \$SLOW_DISK_PID_$1"; rm -f "/tmp/slow.$1."*
}
# What the disk itself counted: writes, flushes, and turns of the platter that something durable waited for.
slow_disk_counts() { awk '{print $2 + 0, $4 + 0, $6 + 0}' "/tmp/slow.$1.counts"; }

# ---- loads -------------------------------------------------------------------------------------------------
# small_files FOLDER COUNT: files of 4 KiB random bytes, 64 to a folder, made in one process.
small_files() {
    python3 - "$1" "$2" <<'PY'
import os, sys
root, count = sys.argv[1], int(sys.argv[2])
for i in range(count):
    d = f"{root}/d{i // 64:04}"
    if i % 64 == 0: os.makedirs(d, exist_ok=True)
    with open(f"{d}/f{i:06}", "wb") as f: f.write(os.urandom(4096))
PY
}
sums() { (cd "$1" && find . -type f -print0 | sort -z | xargs -0 -r sha256sum); }
empty() { local names; names=$(ls -A "$1") && [ -z "$names" ]; }
sums_match() { sums "$1" > /tmp/sums.now && cmp "$2" /tmp/sums.now; }

# ---- suites of others: what each of their tests says ----------------------------------------------------------
# A line `NAME pass|fail|none` for each, none being that it does not apply; what is not well is told at once. The lines stay beside
# the output, so that those of two servers can be compared.
VERDICTS=/media/share/verdicts
verdict() { # verdict NAME WORD [WHY]
    echo "$1 $2" >> $VERDICTS
    [ "$2" = pass ] || echo "# $1 $2${3:+: $3}"
}
said() { local count; count=$(grep -c " $1\$" $VERDICTS); echo "${count:-0}"; }
# passed_at_least COUNT
passed_at_least() { [ "$(said pass)" -ge "$1" ]; }
# fails_as_known FILE: nothing has failed but what stands in there, a name and a reason in each line.
fails_as_known() {
    [ -s $VERDICTS ] && [ -r "$1" ] || return
    awk '!/^#/ {known[$1] = 1} END {while ((getline < verdicts) > 0) if ($2 == "fail" && !known[$1]) {print $1; failed = 1}; exit failed}' verdicts=$VERDICTS "$1"
}
