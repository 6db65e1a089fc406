# Locks as the Linux Test Project tries them, of which a built copy lies in the share: two who fill a file line by line, many who
# try what another one's lock keeps them from, and fcntl and flock call by call (docs/testing.md, "Suites of others").
. /tmp/library
need "server starts" serve_start
need "mount" nfs_mount
NFSLOCK=/media/share/ltp/testcases/network/nfs/nfslock01 MANY=/media/share/ltp/testcases/network/nfsv4/locks CALLS=/media/share/ltp/testcases/kernel/syscalls
# Mounts of one version are one client of the server's; so the other one speaks another version.
OTHER=/mnt/other
other_mount() { local MOUNT_OPTIONS=vers=$([ "$NFS_VERSION" = 4.1 ] && echo 4.2 || echo 4.1),proto=tcp,hard; nfs_mount $OTHER; }
need "another client" other_mount

# filled FOLDER FOLDER: one writes the even lines, one the odd ones, each under a lock for as long as that takes.
filled() {
    local lines=${ENTRIES:-1024} name=lines.$RANDOM one
    $NFSLOCK/nfs_flock_dgen "$1/$name" 64 "$lines" 0 && $NFSLOCK/nfs_flock_dgen /tmp/expected 64 "$lines" 1 || return
    $NFSLOCK/nfs_flock 0 "$1/$name" 64 "$lines" & one=$!
    $NFSLOCK/nfs_flock 1 "$2/$name" 64 "$lines" && wait $one && cmp /tmp/expected "$1/$name"
}
check "two fill one file line by line" filled $MNT $MNT
# The lines of one end in the pages of another: who has a lock reads what was written under the one before.
check "and so do two clients" filled $MNT $OTHER
many() { timeout 300 $MANY/locktests -n 20 -f "$MNT/many.$RANDOM" > /tmp/many; cat /tmp/many; [ "$(grep -c '^20 process of 20 ' /tmp/many)" = 10 ]; }
check "many try what a lock keeps them from" many

# called NAME FOLDER: one program of calls.
called() {
    local status
    PATH=$PATH:$2 TMPDIR=$MNT/calls KCONFIG_SKIP_CHECK=1 LTP_COLORIZE_OUTPUT=n timeout 120 "$2/$1" > "/tmp/said.$1" 2>&1; status=$?
    case $status in
        0) verdict "$1" pass ;;
        32) verdict "$1" none "$(grep -h CONF "/tmp/said.$1" | tail -n 1)" ;;
        *) verdict "$1" fail "status $status"; tail -n 12 "/tmp/said.$1" | sed 's/^/#      /' ;;
    esac
}
mkdir -m 777 $MNT/calls
# Those with 64 in their name are the same calls on this machine.
for call in fcntl flock; do
    for program in $CALLS/$call/$call[0-9][0-9]; do called "${program##*/}" "${program%/*}"; done
done
note "$(said pass) passed, $(said fail) failed, $(said none) do not apply"
SPOIL="VERDICTS=/dev/null" check "most of them pass" passed_at_least 30
SPOIL="VERDICTS=/dev/null" check "nothing fails that passes by Linux' own server" fails_as_known /tmp/nfslock.known
need "unmount both" umount $OTHER $MNT
finish
