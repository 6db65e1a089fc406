# One directory of 100,000 entries, made by one process, listed and removed.
. /tmp/library
ENTRIES=${ENTRIES:-100000}
need "server starts" serve_start
need "mount" nfs_mount
cat > /tmp/many.py <<'PY'
import os, sys
what, count = sys.argv[1], int(sys.argv[2])
os.chdir("/mnt/tank")
if what == "make":
    os.mkdir("many")
    for i in range(count): os.close(os.open(f"many/entry-{i:06}", os.O_WRONLY | os.O_CREAT | os.O_EXCL))
elif what == "list":
    names = os.listdir("many")
    assert len(names) == len(set(names)) == count, (len(names), len(set(names)))
    assert set(names) == {f"entry-{i:06}" for i in range(count)}
elif what == "stat":
    assert sum(1 for e in os.scandir("many") if e.stat().st_size == 0) == count
else:
    for e in list(os.scandir("many")): os.unlink(e.path)
    os.rmdir("many")
PY
check "make $ENTRIES entries" python3 /tmp/many.py make "$ENTRIES"
check "list" python3 /tmp/many.py list "$ENTRIES"
need "remount" nfs_remount
check "list after a remount" python3 /tmp/many.py list "$ENTRIES"
check "stat all" python3 /tmp/many.py stat "$ENTRIES"
need "kill and start" crash
need "remount after the crash" nfs_remount
check "list after a crash" python3 /tmp/many.py list "$ENTRIES"
check "remove" python3 /tmp/many.py remove "$ENTRIES"
SPOIL="there_are $MNT/many" check "gone" [ ! -e "$MNT/many" ]
need "kill and start after the removal" crash
need "remount at last" nfs_remount
SPOIL="there_are $MNT/many" check "still gone" empty "$MNT"
finish
