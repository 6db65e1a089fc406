# Records what the disks below a pool are told while the kernel's client unpacks an archive: once one disk with the
# log in the pool, by the kernel's own target log-writes; once pool and log on two disks, by disks of our own that share
# one recording (that target stands before one disk, and its log of two would not say which flush was whose). The host
# makes disks of it as power cuts would have left them: `cargo xtask crash-images --help`.
. /tmp/library
if [ "$SERVER" != tally ]; then note "only this server is looked at"; echo "0 passed, 0 failed, 1 skipped"; exit 0; fi
FILES=${FILES:-256}
POOL_MIB=64 LOG_MIB=4

# What tar does for each member of the archive, and after each call that promises something the number of requests
# answered until then, into the recording. The order and the numbers are known to the host as well.
cat > /tmp/unpack.py <<'PY'
import fcntl, os, socket, struct, sys, tarfile
class Kernel:
    """Marks of dm-log-writes, by the ioctl DM_TARGET_MSG: a fork for `dmsetup` would take 25 ms."""
    def __init__(self, name): self.name, self.control = name.encode(), os.open("/dev/mapper/control", os.O_RDWR)
    def mark(self, text):
        message = struct.pack("Q", 0) + b"mark " + text.encode() + b"\0"
        head = struct.pack("3I I I I i I I I Q 128s 129s 7x", 4, 0, 0, 312 + len(message), 312, 0, 0, 0, 0, 0, 0, self.name, b"")
        fcntl.ioctl(self.control, 0xc138fd0e, bytearray(head + message))
class Socket:
    def __init__(self, path): self.peer = socket.socket(socket.AF_UNIX); self.peer.connect(path)
    def mark(self, text): self.peer.sendall(text.encode() + b"\n"); assert self.peer.recv(1) == b"\n"
recorder = Kernel(sys.argv[3]) if sys.argv[2] == "kernel" else Socket(sys.argv[3])
os.chdir(sys.argv[1])
steps = 0
def answered(requests):
    global steps
    steps += requests
    recorder.mark(f"step:{steps}")
archive = tarfile.open("/tmp/source.tar")
members = archive.getmembers()
answered(0)
for member in members:
    if member.isdir(): os.mkdir(member.name, 0o755); answered(1); continue
    # CREATE EXCLUSIVE, and a SETATTR of the mode.
    file = os.open(member.name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600); answered(2)
    # The content goes out with the next change of the attributes.
    os.write(file, archive.extractfile(member).read())
    os.utime(file, (member.mtime, member.mtime)); answered(2)
    os.fchown(file, member.uid, member.gid); answered(1)
    os.fchmod(file, member.mode); answered(1)
    os.close(file)
for member in members:
    if member.isdir(): os.utime(member.name, (member.mtime, member.mtime)); answered(1)
PY
unpack() { # unpack RECORDER ADDRESS
    local before; before=$(durable_count)
    python3 /tmp/unpack.py "$MNT" "$@" || return
    durable=$(($(durable_count) - before))
    # What was written behind the last answer.
    sleep 6
}

# one_disk_*, two_disks_*: the devices, and the recording of them into the shared folder.
one_disk_make() {
    modprobe dm-log-writes || return
    dmsetup create recorded --noudevsync --table "0 $((POOL_MIB * 2048)) log-writes /dev/ubda /dev/ubdb" || return
    # Nobody makes its node below /dev/mapper.
    POOL_DISK=/dev/dm-0 LOG_DISK=
    dmsetup message recorded 0 mark "disk:pool:0:$((POOL_MIB * 2048))"
}
one_disk_finish() {
    # The status ends with the last sector of the log; the last entry of all is added by the removal.
    set -- $(dmsetup status recorded); local mib=$((${*: -1} / 2048 + 2))
    dmsetup remove --noudevsync recorded || return
    dd if=/dev/ubdb of=/media/share/one-disk.recording bs=1M count="$mib" 2> /dev/null
}
two_disks_make() {
    modprobe nbd nbds_max=2 max_part=0 || return
    mkdir -p /tmp/sockets
    /tmp/xtask record-disks /tmp/two-disks.recording --sockets /tmp/sockets --disk "pool=$POOL_MIB" --disk "log=$LOG_MIB" & DISKS_PID=$!
    until [ -S /tmp/sockets/marks ]; do kill -0 "$DISKS_PID" || return; sleep 0.1; done
    nbd_attach nbd0 /tmp/sockets/pool && nbd_attach nbd1 /tmp/sockets/log || return
    POOL_DISK=/dev/nbd0 LOG_DISK=/dev/nbd1
}
two_disks_finish() {
    kill "$DISKS_PID"; wait "$DISKS_PID"
    cp /tmp/two-disks.recording /media/share/
}

# record WHICH RECORDER ADDRESS
record() {
    rm -rf /tmp/state
    need "$1: disks" "${1//-/_}_make"
    need "$1: server starts" serve_start
    need "$1: mount" nfs_mount
    need "$1: unpack" unpack "$2" "$3"
    note "$1: $durable durable requests, $(ratio "$durable" "$FILES") a file"
    check "$1: content" sh -c "tar -C $MNT --compare -f /tmp/source.tar"
    need "$1: unmount" umount "$MNT"
    tally_kill
    need "$1: the recording" "${1//-/_}_finish"
}

small_files /tmp/source "$FILES"
# Owners, modes and times that nobody has by chance.
python3 - <<'PY'
import os
for number, (folder, _, names) in enumerate(sorted(os.walk("/tmp/source"))):
    for index, name in enumerate(sorted(names)):
        path = f"{folder}/{name}"
        os.chown(path, 1000 + index, 2000 + number); os.chmod(path, 0o600 | index % 0o100); os.utime(path, (10**9 + index,) * 2)
    os.utime(folder, (11 * 10**8 + number,) * 2)
PY
(cd /tmp/source && tar --format=ustar --sort=name -cf /tmp/source.tar *)
cp /tmp/source.tar /media/share/
record one-disk kernel recorded
record two-disks socket /tmp/sockets/marks
finish
