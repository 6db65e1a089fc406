# What a program expects of a file system, one thing at a time, and all of it again after a remount and a crash.
. /tmp/library
export NFS_VERSION
need "server starts" serve_start
need "mount" nfs_mount
mkdir "$MNT/t" && cd "$MNT/t" || exit
cat > /tmp/act.py <<'PY'
"""Makes one of everything below the current folder."""
import os, socket, stat, subprocess
def write(name, data, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    fd = os.open(name, flags, 0o644)
    try:
        while data: data = data[os.write(fd, data):]
    finally: os.close(fd)
def refused(error, call, *args, **kw):
    try: call(*args, **kw)
    except OSError as e: assert e.errno == error, (e, error)
    else: raise AssertionError(f"{call.__name__}{args} was not refused")
import errno
write("plain", b"one\n")
write("excl", b"mine", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
refused(errno.EEXIST, os.open, "excl", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
write("moved-from", b"moved"); os.rename("moved-from", "moved-to")
refused(errno.ENOENT, os.stat, "moved-from")
write("victim", b"old"); write("winner", b"new"); os.rename("winner", "victim")
os.mkdir("d1"); os.mkdir("d1/d2"); write("d1/d2/deep", b"deep"); os.rename("d1/d2", "d3")
refused(errno.ENOTEMPTY, os.rmdir, "d3")
refused(errno.ENOENT, os.stat, "d1/d2")
refused(errno.EINVAL, os.rename, "d3", "d3/inside")
write("linked", b"linked"); os.link("linked", "linked2"); os.link("linked", "d3/linked3"); os.unlink("linked")
assert os.stat("linked2").st_nlink == 2
os.symlink("../elsewhere/" + "x" * 200, "symlink")
os.mkfifo("fifo", 0o640)
os.mknod("node", stat.S_IFCHR | 0o600, os.makedev(1, 3))
s = socket.socket(socket.AF_UNIX); s.bind("socket"); s.close()
write("attributes", b"a"); os.chmod("attributes", 0o6751); os.chown("attributes", 1234, 4321); os.chmod("attributes", 0o4711)
os.utime("attributes", ns=(1_000_000_000_123_456_789, 1_500_000_000_987_654_321))
fd = os.open("sparse", os.O_RDWR | os.O_CREAT); os.pwrite(fd, b"end", (1 << 33) - 3); os.pwrite(fd, b"mid", 1 << 31); os.close(fd)
write("cut", b"0123456789" * 10_000); os.truncate("cut", 12_345); os.truncate("cut", 20_000)
for i in range(300): write("appended", b"%04d" % i, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
fd = os.open("unlinked", os.O_RDWR | os.O_CREAT); os.write(fd, b"still there"); os.unlink("unlinked")
assert os.pread(fd, 100, 0) == b"still there"; os.pwrite(fd, b"STILL", 0); assert os.pread(fd, 100, 0) == b"STILL there"; os.close(fd)
os.mkdir("setgid"); os.chown("setgid", 0, 777); os.chmod("setgid", 0o2775); write("setgid/child", b""); os.mkdir("setgid/dir")
os.mkdir("sticky"); os.chmod("sticky", 0o1777)
name = "n" * 255; write(name, b"long"); refused(errno.ENAMETOOLONG, os.open, "n" * 256, os.O_WRONLY | os.O_CREAT)
write("name with \\ ' \" and \n newline".encode(), b"odd"); write(b"\xff\xfe not utf-8", b"bytes")
write("shared-write", b"A" * 10_000)
fd = os.open("shared-write", os.O_RDWR); os.pwrite(fd, b"B" * 100, 4_050); os.fsync(fd); os.close(fd)
write("copied-from", bytes(range(256)) * 40_000 + b"end")
a, b = os.open("copied-from", os.O_RDONLY), os.open("copied-to", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
while os.copy_file_range(a, b, 100 << 20): pass
os.close(a); os.close(b)
subprocess.run(["cp", "--reflink=never", "copied-from", "copied-plainly"], check=True)
write("punched", bytes(range(1, 251)) * 8_000)
if os.environ["NFS_VERSION"] == "4.2":
    subprocess.run(["fallocate", "-p", "-o", "100000", "-l", "1500000", "punched"], check=True)
    assert os.stat("punched").st_size == 2_000_000
    subprocess.run(["fallocate", "-l", "1M", "allocated"], check=True)
    write("allocated-behind", b"a" * 5_000); subprocess.run(["fallocate", "-l", "1M", "allocated-behind"], check=True)
else:
    fd = os.open("punched", os.O_WRONLY); os.pwrite(fd, bytes(1_500_000), 100_000); os.close(fd)
for how in ("never", "auto"): subprocess.run(["cp", "--reflink=" + how, "punched", "punched-" + how], check=True)
if os.environ["NFS_VERSION"] == "4.2":
    for name in ("attributes", "d1"):
        os.setxattr(name, "user.note", b"first", os.XATTR_CREATE); os.setxattr(name, "user.note", b"a note", os.XATTR_REPLACE)
        refused(errno.EEXIST, os.setxattr, name, "user.note", b"", os.XATTR_CREATE)
        refused(errno.ENODATA, os.setxattr, name, "user.none", b"", os.XATTR_REPLACE)
        os.setxattr(name, "user.long", bytes(range(256)) * 256); os.setxattr(name, "user.empty", b"")
        os.setxattr(name, "user.gone", b"v"); os.removexattr(name, "user.gone"); refused(errno.ENODATA, os.getxattr, name, "user.gone")
        for number in range(100): os.setxattr(name, f"user.{number} of a hundred names that take more than one reply" + "." * 100, b"%d" % number)
    refused(errno.EPERM, os.setxattr, "symlink", "user.note", b"v", 0, follow_symlinks=False)
os.umask(0o027); write("masked", b""); os.close(os.open("masked-excl", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)); os.mkdir("masked-dir"); os.mkfifo("masked-fifo", 0o777)
PY
cat > /tmp/verify.py <<'PY'
"""Looks at what act.py made."""
import os, stat
def read(name):
    with open(name, "rb") as f: return f.read()
try: os.open("excl", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
except FileExistsError: pass
else: raise AssertionError("O_EXCL made a file that is there")
assert not [name for name in os.listdir(".") if name.startswith(".nfs")], "a file that was unlinked while open is still there"
assert read("plain") == b"one\n" and read("excl") == b"mine" and read("moved-to") == b"moved" and read("victim") == b"new"
assert not os.path.exists("winner") and not os.path.exists("moved-from") and not os.path.exists("linked") and not os.path.exists("unlinked")
assert read("d3/deep") == b"deep" and os.listdir("d1") == [] and sorted(os.listdir("d3")) == ["deep", "linked3"]
a, b = os.stat("linked2"), os.stat("d3/linked3"); assert (a.st_ino, a.st_nlink) == (b.st_ino, 2) and read("linked2") == b"linked"
assert os.readlink("symlink") == "../elsewhere/" + "x" * 200
assert stat.S_ISFIFO(os.lstat("fifo").st_mode) and os.lstat("fifo").st_mode & 0o7777 == 0o640
n = os.lstat("node"); assert stat.S_ISCHR(n.st_mode) and n.st_rdev == os.makedev(1, 3)
assert stat.S_ISSOCK(os.lstat("socket").st_mode)
a = os.stat("attributes"); assert (a.st_uid, a.st_gid, a.st_mode & 0o7777) == (1234, 4321, 0o4711), (a, oct(a.st_mode))
assert (a.st_atime_ns, a.st_mtime_ns) == (1_000_000_000_123_456_789, 1_500_000_000_987_654_321), (a.st_atime_ns, a.st_mtime_ns)
s = os.stat("sparse"); assert s.st_size == 1 << 33 and s.st_blocks * 512 < 64 << 20, s
fd = os.open("sparse", os.O_RDONLY); assert os.pread(fd, 3, (1 << 33) - 3) == b"end" and os.pread(fd, 5, (1 << 31) - 1) == b"\0mid\0"; assert not any(os.pread(fd, 1 << 20, 1 << 30)); os.close(fd)
cut = read("cut"); assert len(cut) == 20_000 and cut[:12_345] == (b"0123456789" * 10_000)[:12_345] and not any(cut[12_345:])
assert read("appended") == b"".join(b"%04d" % i for i in range(300))
assert os.stat("setgid/child").st_gid == 777 and os.stat("setgid/dir").st_gid == 777 and os.stat("setgid/dir").st_mode & stat.S_ISGID
assert os.stat("sticky").st_mode & 0o7777 == 0o1777 and os.stat("setgid").st_nlink == 3
assert read("n" * 255) == b"long" and read("name with \\ ' \" and \n newline") == b"odd" and read(b"\xff\xfe not utf-8") == b"bytes"
assert read("shared-write") == b"A" * 4_050 + b"B" * 100 + b"A" * 5_850
assert read("copied-to") == read("copied-plainly") == bytes(range(256)) * 40_000 + b"end" and read("punched-never") == read("punched-auto") == read("punched")
punched = bytes(range(1, 251)) * 8_000; assert read("punched") == punched[:100_000] + bytes(1_500_000) + punched[1_600_000:]
modes = [os.lstat("masked" + kind).st_mode & 0o7777 for kind in ("", "-excl", "-dir", "-fifo")]; assert modes == [0o640, 0o640, 0o750, 0o750], [oct(mode) for mode in modes]
if os.environ["NFS_VERSION"] == "4.2":
    assert read("allocated") == bytes(1 << 20) and read("allocated-behind") == b"a" * 5_000 + bytes((1 << 20) - 5_000)
    fd, at = os.open("sparse", os.O_RDONLY), []
    for whence in (os.SEEK_DATA, os.SEEK_HOLE, os.SEEK_DATA, os.SEEK_HOLE): at.append(os.lseek(fd, at[-1] if at else 0, whence))
    for name in ("attributes", "d1"):
        names = os.listxattr(name); assert len(names) == len(set(names)) == 103 and {"user.note", "user.long", "user.empty"} < set(names), names
        assert os.getxattr(name, "user.note") == b"a note" and os.getxattr(name, "user.empty") == b"" and os.getxattr(name, "user.long") == bytes(range(256)) * 256
        assert all(os.getxattr(name, f"user.{number} of a hundred names that take more than one reply" + "." * 100) == b"%d" % number for number in range(100))
    assert os.listxattr("plain") == []
    os.close(fd); assert at[0] == 1 << 31 < at[1] < 3 << 30 and (1 << 33) - (2 << 20) < at[2] < at[3] == 1 << 33, at
    fd = os.open("punched", os.O_RDONLY); hole = os.lseek(fd, 0, os.SEEK_HOLE); data = os.lseek(fd, hole, os.SEEK_DATA); os.close(fd)
    assert 100_000 <= hole <= 100_000 + (128 << 10) and 1_600_000 - (128 << 10) <= data <= 1_600_000, (hole, data)
PY
cat > /tmp/rights.py <<'PY'
"""Rights as an ordinary user meets them: run as uid 1000, gid 1000, group 500."""
import errno, os
def refused(error, call, *args):
    try: call(*args)
    except OSError as e: assert e.errno in error, (e, error)
    else: raise AssertionError(f"{call.__name__}{args} was not refused")
denied = (errno.EACCES, errno.EPERM)
refused(denied, os.open, "/mnt/tank/r/secret", os.O_RDONLY)
refused(denied, os.open, "/mnt/tank/r/new", os.O_WRONLY | os.O_CREAT)
refused(denied, os.chmod, "/mnt/tank/r/open", 0o600)
refused(denied, os.chown, "/mnt/tank/r/own", 0, 0)
refused(denied, os.unlink, "/mnt/tank/r/sticky/roots")
refused(denied, os.unlink, "/mnt/tank/r/open")
if os.environ["NFS_VERSION"] == "4.2":
    for name in ("secret", "open"): refused(denied, os.setxattr, "/mnt/tank/r/" + name, "user.note", b"v")
    refused(denied, os.getxattr, "/mnt/tank/r/secret", "user.note"); refused(denied, os.setxattr, "/mnt/tank/r/sticky", "user.note", b"v")
    os.setxattr("/mnt/tank/r/group", "user.note", b"v"); assert os.getxattr("/mnt/tank/r/group", "user.note") == b"v"; os.removexattr("/mnt/tank/r/group", "user.note")
os.close(os.open("/mnt/tank/r/group", os.O_RDWR)); os.close(os.open("/mnt/tank/r/open", os.O_RDONLY))
os.chmod("/mnt/tank/r/own", 0o400); os.chown("/mnt/tank/r/own", -1, 500)
fd = os.open("/mnt/tank/r/sticky/mine", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444); os.write(fd, b"a mode that forbids its owner to write does not bind an open file"); os.close(fd)
os.unlink("/mnt/tank/r/sticky/mine")
PY
check "one of everything" python3 /tmp/act.py
check "seen at once" python3 /tmp/verify.py
of_the_server() { awk -v op="$1:" '$1 == op { sent += $2 } END { exit !sent }' /proc/self/mountstats; }
if [ "$NFS_VERSION" = 4.2 ]; then
    SPOIL="set -- of_the_server LAYOUTSTATS" check "copied by the server" of_the_server COPY
    SPOIL="set -- of_the_server LAYOUTSTATS" check "holes are the server's" of_the_server SEEK
    SPOIL="set -- of_the_server LAYOUTSTATS" check "punched by the server" of_the_server DEALLOCATE
    SPOIL="set -- of_the_server LAYOUTSTATS" check "allocated by the server" of_the_server ALLOCATE
    SPOIL="set -- of_the_server LAYOUTSTATS" check "extended attributes are the server's" of_the_server SETXATTR
fi
mkdir -p "$MNT/r/sticky"; cd "$MNT/r" && { echo s > secret; chmod 600 secret; echo o > open; chmod 644 open; echo g > group; chgrp 500 group; chmod 660 group; echo w > own; chown 1000:1000 own; chmod 1777 sticky; echo r > sticky/roots; }; cd /tmp
check "rights of an ordinary user" setpriv --reuid 1000 --regid 1000 --groups 500 python3 /tmp/rights.py
need "remount" nfs_remount
cd "$MNT/t" && check "seen after a remount" python3 /tmp/verify.py; cd /tmp
# A file that is open and has no name any more has to outlive the server too; its pages must not come from here.
echo "still there" > "$MNT/held" && exec 7< "$MNT/held" && rm "$MNT/held"; sync; echo 3 > /proc/sys/vm/drop_caches
held() { [ "$(cat <&7)" = "still there" ]; }
# The new server must not inherit the open file.
need "kill and start" crash 7<&-
SPOIL="exec 7< /dev/null" check "a file unlinked while open is read after a crash" held
exec 7<&-
nothing_held() { local names; names=$(ls -A "$MNT") && ! grep -e held -e '^\.nfs' <<< "$names"; }
SPOIL="there_are $MNT/held" check "and is gone once it is closed" nothing_held
cd "$MNT/t" && check "seen after a crash" python3 /tmp/verify.py; cd /tmp
need "remount after the crash" nfs_remount
cd "$MNT/t" && check "seen after crash and remount" python3 /tmp/verify.py; cd /tmp

# Two mounts that share no cache see each other's changes once files are closed and opened again.
need "second mount" nfs_mount /mnt/second nosharecache
cat > /tmp/two.py <<'PY'
import os, sys, time
a, b = "/mnt/tank/two", "/mnt/second/two"
def eventually(what):
    for _ in range(200):
        if what(): return
        time.sleep(0.5)
    raise AssertionError("the other mount never saw it")
if sys.argv[1] == "read":
    assert open(a + "-kept").read() == open(b + "-kept").read() == "kept" and not os.path.exists(a) and not os.path.exists(b + "-dir")
    sys.exit()
for i in range(20):
    with open(a, "w") as f: f.write(f"from a {i}" + "." * i)
    assert open(b).read() == f"from a {i}" + "." * i
    with open(b, "w") as f: f.write(f"from b {i}" + "," * 3 * i)
    assert open(a).read() == f"from b {i}" + "," * 3 * i
os.rename(a, a + "-renamed"); eventually(lambda: os.path.exists(b + "-renamed") and not os.path.exists(b))
os.mkdir(b + "-dir"); eventually(lambda: os.path.isdir(a + "-dir"))
os.unlink(b + "-renamed"); eventually(lambda: not os.path.exists(a + "-renamed"))
os.rmdir(a + "-dir"); eventually(lambda: not os.path.exists(b + "-dir"))
with open(b + "-kept", "w") as f: f.write("kept")
PY
check "two mounts see each other's changes" python3 /tmp/two.py write
need "unmount the second" umount /mnt/second
need "remount the first" nfs_remount
need "second mount again" nfs_mount /mnt/second nosharecache
check "both see what is there after a remount" python3 /tmp/two.py read
need "kill and start under two mounts" crash
check "both see what is there after a crash" python3 /tmp/two.py read
check "and each other's changes again" python3 /tmp/two.py write
need "unmount the second at last" umount /mnt/second
SPOIL="there_stay $MNT/t" check "remove all" sh -c "rm -rf $MNT/t $MNT/r $MNT/two*"
finish
