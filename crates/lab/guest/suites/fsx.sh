# Random reads, writes, cuts, mappings, punches and copies of one file, against a copy in memory: fsx, of which a built copy
# lies in the share as a part of xfstests (docs/testing.md, "Suites of others").
. /tmp/library
OPERATIONS=${ENTRIES:-5000} SEED=${SEED:-1}
need "server starts" serve_start
need "mount" nfs_mount
cp /media/share/xfstests/ltp/fsx /tmp/fsx
# fsx NAME ARGUMENT…
fsx() { (cd "$MNT" && /tmp/fsx -S "$SEED" -P /tmp "${@:2}" "$1"); }
check "as it comes" fsx plain -q -N "$OPERATIONS"
check "a longer file, opened and closed" fsx longer -q -N "$OPERATIONS" -l 4000000 -o 200000 -c 20
check "without mappings" fsx unmapped -q -N "$OPERATIONS" -R -W
check "past the cache" fsx direct -q -N "$OPERATIONS" -R -W -Z -r 4096 -w 4096 -t 4096
# The client has to get over it, and what it was told has to be there.
killed() {
    fsx killed -q -N "$((OPERATIONS * 4))" -c 50 & local working=$! kill
    for kill in 1 2 3 4 5; do
        sleep 3; kill -0 $working || break
        crash || return
    done
    wait $working
}
SPOIL="crash() { return 0; }" check "while the server is killed" killed
need "unmount" umount "$MNT"
finish
