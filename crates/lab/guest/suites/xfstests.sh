# What every file system of Linux is held against: xfstests, of which a built copy lies in the share, its tests of the group
# `quick` that a file system over the network can be asked (docs/testing.md, "Suites of others"). TESTS names others.
. /tmp/library
need "server starts" serve_start
need "mount" nfs_mount
XFSTESTS=/media/share/xfstests
# It has users of its own, and the root is read-only.
for table in passwd group; do cp /etc/$table /tmp/$table && mount --bind /tmp/$table /etc/$table; done
number=2000
for name in fsgqa fsgqa2 123456-fsgqa; do
    echo "$name:x:$number:$number::/tmp:/bin/bash" >> /etc/passwd; echo "$name:x:$number:" >> /etc/group; number=$((number + 1))
done
# Its two file systems are two folders, by mounts that share no cache.
mkdir -m 777 $MNT/test $MNT/scratch; mkdir -p /mnt/test /mnt/scratch /tmp/results
need "unmount" umount $MNT
export FSTYP=nfs TEST_DEV=127.0.0.1:${EXPORT%/}/test TEST_DIR=/mnt/test SCRATCH_DEV=127.0.0.1:${EXPORT%/}/scratch SCRATCH_MNT=/mnt/scratch
export NFS_MOUNT_OPTIONS="-o $MOUNT_OPTIONS$MOUNT_EXTRA,nosharecache" RESULT_BASE=/tmp/results
# What asks for one of these asks for a block device below the mount, or for calls that no version of NFS has.
BEYOND='dm_target|scratch_shutdown|[a-z_]*quota|[a-z_]*reflink|[a-z_]*dedupe|block_device|local_device|[a-z_]*encryption|[a-z_]*verity|[a-z_]*casefold|freeze|idmapped_mounts|[a-z_]*swapfile|metadata_journaling|scratch_size[a-z_]*|scratch_mkfs_sized|log_writes|[a-z_]*write_atomic[a-z_]*|chattr|acls|richacl|exportfs|error_injection|fail_make_request|fibmap|mkfs|hugepages|test_fcntl_setlease|xfs_io_command "(fiemap|fzero|fcollapse|finsert|fsmap|falloc|exchangerange|chproj)"?'
quick() {
    cd $XFSTESTS/tests && awk '!/^#/ && / quick( |$)/ {print "generic/" $1}' generic/group.list | xargs grep -L -E "_require_($BEYOND)( |\$)|_scratch_mkfs_sized"
    echo nfs/001
}
# Whoever takes longer than that is ended, with all that it has started.
LIMIT=${LOAD_SECONDS:-300}
tree() { local child; echo "$1"; for child in $(pgrep -P "$1"); do tree "$child"; done; }
limit() {
    local test
    while sleep 10; do
        for test in $(pgrep -f '^/bin/bash \./tests/'); do
            [ "$(ps -o etimes= -p "$test")" -le "$LIMIT" ] || { echo "# over its time limit: $(ps -o args= -p "$test")"; kill -KILL $(tree "$test"); }
        done
    done
}
# One line of its output for each test: what it took, or what was wrong.
heard() {
    local line name
    while IFS= read -r line; do
        name=${line%% *}
        case $line in
            generic/*'[not run]'* | nfs/*'[not run]'*) verdict "$name" none "${line#*run] }" ;;
            generic/* | nfs/*)
                if [[ $line =~ ^[a-z]+/[0-9]+(\ +[0-9]+s\ \.\.\.)?\ +[0-9]+s$ ]]; then verdict "$name" pass; else verdict "$name" fail "${line#"$name"}"; fi ;;
            ' '*) echo "#  $line" ;;
        esac
    done
}
all() {
    local names
    limit & names=$(echo ${TESTS:-$(quick)})
    (cd $XFSTESTS && bash ./check $names 2>&1) | tee /tmp/check.said | heard >&19
    kill $!
    echo "$names" | tr ' ' '\n' | while read -r name; do grep -q "^$name " $VERDICTS || { verdict "$name" fail "was not said"; tail -n 5 /tmp/check.said; } >&19; done
    cp -r /tmp/results /media/share/
}
exec 19>&1
all
note "$(said pass) passed, $(said fail) failed, $(said none) do not apply"
[ -n "${TESTS:-}" ] || SPOIL="VERDICTS=/dev/null" check "most of them pass" passed_at_least 100
SPOIL="VERDICTS=/dev/null" check "nothing fails that passes by Linux' own server" fails_as_known /tmp/xfstests.known
finish
