# What clients have open and locked, across a restart of the server: of version 4, which alone has either.
. /tmp/library
[ "$NFS_VERSION" != 3 ] || NFS_VERSION=4.2 MOUNT_OPTIONS=vers=4.2,proto=tcp,hard
# Clients of 4.0 have no word for that they claim nothing more, so behind each restart others wait for a lease.
[ "$NFS_VERSION" != 4.0 ] || SERVE_WORDS="--lease-time 15"
need "server starts" serve_start
need "mount" nfs_mount
cat > /tmp/hold.py <<'PY'
"""Holds a file open, as the user that it is told, and does what it is told with it."""
import os, sys, fcntl
name, uid = sys.argv[1], int(sys.argv[2])
os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
fd = os.open(name, os.O_RDONLY if "reading" in sys.argv else os.O_RDWR)
print("open", flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "end": break
    try:
        if word == "write": os.lseek(fd, 0, 0); os.ftruncate(fd, 0); os.write(fd, " ".join(rest).encode()); os.fsync(fd); print("ok", flush=True)
        elif word == "read":
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED); print(os.pread(fd, 1000, 0).decode() or "nothing", flush=True)
        elif word == "lock":
            kind = {"x": fcntl.LOCK_EX, "s": fcntl.LOCK_SH}[rest[0]]
            fcntl.lockf(fd, kind | fcntl.LOCK_NB, int(rest[2]), int(rest[1])); print("ok", flush=True)
        elif word == "wait":
            fcntl.lockf(fd, fcntl.LOCK_EX); print("ok", flush=True)
        elif word == "unlock": fcntl.lockf(fd, fcntl.LOCK_UN); print("ok", flush=True)
    except OSError as error: print(error.strerror, flush=True)
PY
# hold NAME FILE UID [reading] starts one whose words go to it by `tell NAME WORDS…`, which prints its answer.
hold() {
    rm -f "/tmp/to.$1" "/tmp/from.$1"; mkfifo "/tmp/to.$1" "/tmp/from.$1"
    python3 /tmp/hold.py "${@:2}" < "/tmp/to.$1" > "/tmp/from.$1" 2>&1 &
    eval "PID_$1=$!"; eval "exec {TO_$1}> /tmp/to.$1 {FROM_$1}< /tmp/from.$1"
    local fd=FROM_$1 word; read -r -t 200 -u "${!fd}" word; [ "$word" = open ] || { echo "$word"; return 1; }
}
tell() {
    local to=TO_$1 from=FROM_$1 answer; shift
    echo "$*" >&"${!to}"; read -r -t 200 -u "${!from}" answer; echo "$answer"
}
says() { local wanted=$1 answer; shift; answer=$(tell "$@"); echo "$answer"; [ "$answer" = "$wanted" ]; }
# It is told, as a server that was started meanwhile may have its ears, too.
let_go() { local to=TO_$1 pid=PID_$1; echo end >&"${!to}"; wait "${!pid}"; }

echo before > "$MNT/mine"; chown 1000:1000 "$MNT/mine"; chmod 600 "$MNT/mine"
need "a user opens a file" hold one "$MNT/mine" 1000
SPOIL="exec 3<&-; tell() { echo no; }" check "and writes it" says ok one write first
chmod 000 "$MNT/mine"
SPOIL="tell() { echo no; }" check "also when its mode says otherwise" says ok one write second
# Whoever opened it anew would be refused.
cannot_open() { ! setpriv --reuid 1000 --regid 1000 --clear-groups cat "$MNT/mine" && [ -e "$MNT/mine" ]; }
check "and could not open it any more" cannot_open
need "kill and start" crash
SPOIL="tell() { echo no; }" check "it is open still behind the restart" says ok one write third
echo 3 > /proc/sys/vm/drop_caches
SPOIL="tell() { echo no; }" check "and can be read" says third one read
PATIENCE=30; [ "$NFS_VERSION" != 4.0 ] || PATIENCE=60
make_new() { timeout $PATIENCE sh -c "echo new > '$MNT/new.$RANDOM'"; }
check "others open files at once" make_new
need "stop" tally_stop
need "and start" tally_start
SPOIL="tell() { echo no; }" check "it is open still behind an export" says ok one write fourth

# Two mounts that know nothing of each other's locks, so that the server has to.
need "second mount" nfs_mount /mnt/second nosharecache
echo locked > "$MNT/locked"; chmod 666 "$MNT/locked"
need "one opens a file" hold a "$MNT/locked" 1000
need "and another one" hold b /mnt/second/locked 1001
no_locks='tell() { echo no; }'
taken="Resource temporarily unavailable"
SPOIL=$no_locks check "a range is locked" says ok a lock x 0 100
SPOIL=$no_locks check "and another one cannot have it" says "$taken" b lock x 50 100
SPOIL=$no_locks check "nor read it under a lock" says "$taken" b lock s 99 1
SPOIL=$no_locks check "what is beside it he can" says ok b lock x 100 50
SPOIL=$no_locks check "both read what is shared" says ok a lock s 1000 10
SPOIL=$no_locks check "by both" says ok b lock s 1005 10
need "kill and start with locks" crash
SPOIL=$no_locks check "behind a restart what was locked is locked" says "$taken" b lock x 50 100
SPOIL=$no_locks check "and what the other one has" says "$taken" a lock x 120 1
SPOIL=$no_locks check "what is shared is shared" says "$taken" a lock x 1000 10
# Who waits has it soon after it is free: a client asks again by itself.
waited() { tell b wait > /tmp/waited & local asking=$!; sleep 2; [ ! -s /tmp/waited ] && says ok a unlock && wait "$asking" && [ "$(cat /tmp/waited)" = ok ]; }
SPOIL=$no_locks check "who waits for all of it has it once it is free" waited
SPOIL=$no_locks check "and gives it back" says ok b unlock
let_go a; let_go b
need "unmount the second" umount /mnt/second

# What a client is given to keep until somebody else would change it, which those of 4.0 are not. Mounts of one version are one client of the server's, also with
# nosharecache, and no client is in its own way; so the other one speaks another version.
OTHER=/mnt/other THREE=/mnt/three
other_mount() { local MOUNT_OPTIONS=vers=$([ "$NFS_VERSION" = 4.1 ] && echo 4.2 || echo 4.1),proto=tcp,hard; nfs_mount $OTHER; }
three_mount() { local MOUNT_OPTIONS=vers=3,proto=tcp,nolock,hard; nfs_mount $THREE "mountport=$PORT,mountproto=tcp"; }
tell_tally() { (cd /tmp/state && "$TALLY" "$@"); }
# keeps COUNT: as many files all clients keep together.
keeps() {
    local list count
    list=$(tell_tally client list --json) || return
    count=$(echo "$list" | grep -o '"delegations": [0-9]*' | awk '{sum += $2} END {print sum + 0}')
    echo "$count"; [ "$count" = "$1" ]
}
# writes WORD FILE SECONDS: within so long.
writes() { timeout "$3" sh -c "printf $1 > '$2'"; }
reads() { [ "$(cat "$MNT/$2")" = "$1" ]; }
if [ "$NFS_VERSION" != 4.0 ] && [ "$SERVER" = tally ]; then
    need "what is made is nobody's to keep" tell_tally dataset set delegations=off tank
    for name in first second third; do printf before > "$MNT/$name"; chmod 666 "$MNT/$name"; done
    need "what is opened is" tell_tally dataset set delegations=on tank
    need "another client" other_mount
    need "and one of version 3" three_mount
    check "nobody keeps a file" keeps 0
    need "one opens a file to read it" hold keeper "$MNT/first" 1000 reading
    SPOIL=$no_locks check "and reads it" says before keeper read
    check "and may keep it" keeps 1
    SPOIL="OTHER=$MNT" check "another client writes it" eval 'writes behind "$OTHER/first" 5'
    check "for which it was given back" keeps 0
    SPOIL=$no_locks check "who has it open reads what was written" says behind keeper read
    check "and so does who opens it" reads behind first
    let_go keeper
    need "he opens another one" hold keeper "$MNT/second" 1000 reading
    SPOIL=$no_locks check "and reads that" says before keeper read
    check "and may keep that" keeps 1
    # Who comes too early is told to come again, which this client does 5 s later.
    SPOIL="THREE=$MNT" check "version 3 writes it" eval 'writes behind "$THREE/second" 15'
    check "for which that was given back" keeps 0
    SPOIL=$no_locks check "and what was written is read" says behind keeper read
    let_go keeper
    # Who makes a file has it to write, and is asked what it is like; who would read it has it called back.
    long() { [ "$(stat -c %s "$2")" = "$1" ]; }
    old() { [ "$(stat -c %Y "$1")" = 1000000000 ]; }
    need "he makes one" sh -c "printf alone > '$MNT/fourth'; touch -d @1000000000 '$MNT/fourth'"
    check "and may keep it to write" keeps 1
    SPOIL="OTHER=/tmp" check "another client is told how long it is" eval 'long 5 "$OTHER/fourth"'
    SPOIL="OTHER=/tmp" check "and when it was written" eval 'old "$OTHER/fourth"'
    SPOIL="THREE=/tmp" check "version 3 is told so" eval 'long 5 "$THREE/fourth" && old "$THREE/fourth"'
    check "which cost nobody his file" keeps 1
    SPOIL="OTHER=/tmp" check "who reads it reads what was written" eval '[ "$(cat "$OTHER/fourth")" = alone ]'
    check "for which it was given back" keeps 0
    check "and is as old as it was made" old "$MNT/fourth"
    need "none are given any more" tell_tally dataset set delegations=off tank
    need "he opens a third one" hold keeper "$MNT/third" 1000 reading
    SPOIL=$no_locks check "and reads it as well" says before keeper read
    check "and may not keep it" keeps 0
    let_go keeper
    need "unmount both" umount $OTHER $THREE
    # That the other one is gone is durable with the next that somebody is given, and behind a kill before that its claims would be waited for.
    need "others go on" make_new
fi
let_go one
need "unmount" umount "$MNT"
need "kill and start once more" crash
need "mount again" nfs_mount
check "nobody waits for a client that is gone" make_new
finish
