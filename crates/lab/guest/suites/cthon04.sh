# Connectathon's suite of 2004, of which a built copy lies in the share: basic calls, programs and compilers at work,
# special cases, and locks (docs/testing.md, "Suites of others").
. /tmp/library
need "server starts" serve_start
need "mount" nfs_mount
cp -a /media/share/cthon04 /tmp/cthon04
# part LETTER: all of it, with its timings. It gives up at the first thing that fails.
part() { (cd /tmp/cthon04 && MNTOPTIONS=vers=$NFS_VERSION sh ./runtests "-$1" "${2:--a}" "$MNT/cthon"); }
check "basic" part b -t
check "general" part g
check "special" part s
# Of version 3 locks are asked for by another protocol, which is not served.
[ "$NFS_VERSION" = 3 ] || check "locks" part l
need "unmount" umount "$MNT"
finish
