# A file of 2 GiB written and read back, before and after a remount and a crash.
. /tmp/library
MIB=${MIB:-2048}
need "server starts" serve_start
need "mount" nfs_mount
cat > /tmp/large.py <<'PY'
import hashlib, os, random, sys, time
what, mib = sys.argv[1], int(sys.argv[2])
def blocks():
    r = random.Random(7)
    base = r.randbytes(1 << 20)
    for i in range(mib): yield i.to_bytes(8, "big") + base[8:]
started = time.time()
if what == "write":
    with open("/mnt/tank/large", "wb", buffering=0) as f:
        for b in blocks(): assert f.write(b) == 1 << 20
        os.fsync(f.fileno())
else:
    with open("/mnt/tank/large", "rb", buffering=0) as f:
        for i, b in enumerate(blocks()):
            got = b""
            while len(got) < 1 << 20:
                piece = f.read((1 << 20) - len(got))
                assert piece, f"ends at MiB {i}"
                got += piece
            assert got == b, f"MiB {i} differs"
        assert not f.read(1)
print(f"{mib / (time.time() - started):.0f} MiB/s", file=open("/tmp/rate", "w"))
PY
counts_before
check "write and fsync" python3 /tmp/large.py write "$MIB"; note "$(cat /tmp/rate)"
counts_after "$MIB"
need "remount" nfs_remount
check "read after a remount" python3 /tmp/large.py read "$MIB"; note "$(cat /tmp/rate)"
need "kill and start" crash
need "remount after the crash" nfs_remount
check "read after a crash" python3 /tmp/large.py read "$MIB"; note "$(cat /tmp/rate)"
check "remove" rm "$MNT/large"
finish
