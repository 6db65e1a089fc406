# Each change is carried out once, however often its server dies over it: of version 4, whose clients have persistent sessions.
. /tmp/library
[ "$NFS_VERSION" != 3 ] || NFS_VERSION=4.2 MOUNT_OPTIONS=vers=4.2,proto=tcp,hard
# Clients of 4.0 have no word for that they claim nothing more, so behind each kill all wait for a lease.
[ "$NFS_VERSION" != 4.0 ] || SERVE_WORDS="--lease-time 5"
need "server starts" serve_start
need "mount" nfs_mount
cat > /tmp/once.py <<'PY'
"""Makes, renames, links and removes what nobody else does, until it is told to end: EXIST, NOENT and NOTEMPTY are lies then. Counts what it did."""
import os, sys
folder, end = sys.argv[1], sys.argv[2]
os.makedirs(folder, exist_ok=True)
done = lies = 0
def do(what, *of):
    global done, lies
    done += 1
    try: return what(*of)
    except OSError as error:
        lies += 1
        print("LIE", what.__name__, of, error.strerror, flush=True)
while not os.path.exists(end):
    name = f"{folder}/{done}"
    fd = do(os.open, name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    if fd is not None:
        os.write(fd, name.encode()); os.close(fd)
    do(os.mkdir, name + ".d")
    do(os.rename, name, name + ".d/f")
    do(os.link, name + ".d/f", name + ".l")
    do(os.symlink, "to", name + ".s")
    do(os.unlink, name + ".s"); do(os.unlink, name + ".l"); do(os.unlink, name + ".d/f"); do(os.rmdir, name + ".d")
print("done", done, "lies", lies, "left", len(os.listdir(folder)), flush=True)
PY
KILLS=${KILLS:-25}
workers() {
    local worker; WORKERS=
    rm -f /tmp/end
    for worker in $(seq 8); do
        python3 /tmp/once.py "$MNT/of.$worker" /tmp/end > "/tmp/once.$worker" 2>&1 & WORKERS="$WORKERS $!"
    done
}
killed() {
    local kill
    for kill in $(seq "$KILLS"); do
        sleep "$((RANDOM % 3)).$((RANDOM % 10))"
        # What it answers from here on nobody hears.
        ip link set lo down && sleep 0.2 && tally_kill && ip link set lo up && tally_start || return
    done
    sleep 2; touch /tmp/end
    wait $WORKERS
    cat /tmp/once.[0-9]
}
workers
need "the server is killed $KILLS times under eight clients" killed
no_lies() { [ "$(grep -c '^done' /tmp/once.[0-9] | awk -F: '{s += $2} END {print s}')" = 8 ] && ! grep LIE /tmp/once.[0-9]; }
SPOIL='grep() { command grep -v "$@"; }' check "nobody is told that his own change was in its way" no_lies
all_gone() { ! ls -d "$MNT"/of.*/* 2>/dev/null && [ -d "$MNT/of.1" ]; }
check "and what was removed is gone" all_gone
note "$(cat /tmp/once.[0-9] | awk '/^done/ {did += $2; lies += $4} END {print did, "changes,", lies, "of them told of what they had done themselves"}')"
need "unmount" umount "$MNT"
need "stop" tally_stop
finish
