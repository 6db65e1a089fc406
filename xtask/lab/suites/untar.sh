# Untar of small files by the kernel's client: checksums, remount, crash, and the device work that each file costs.
. /tmp/library
FILES=${FILES:-4096}
small_files /tmp/source "$FILES"
tar -C /tmp/source -cf /tmp/source.tar .
sums /tmp/source > /tmp/sums.source

durable_write_unit ubdb
need "server starts" serve_start
need "mount" nfs_mount
mkdir -p "$MNT/warm" && echo x > "$MNT/warm/x"
counts_before
started=$(date +%s%N)
need "untar as root" tar -C "$MNT" -xf /tmp/source.tar
note "untar of $FILES files took $((($(date +%s%N) - started) / 1000000)) ms"
counts_after "$FILES"
case $SERVER in
    tally)
        # Every durable request is one write of the log device: not one more, and never one less.
        check "one log write per durable request" between 0.98 "$(ratio "$(ratio "$writes_ubdb" "$unit_writes")" "$durable")" 1.02
        check "no fewer log flushes than durable requests" [ "$flushes_ubdb" -ge "$durable" ]
        check "pool writes per file at most 0.2" between 0 "$(ratio "$writes_ubda" "$FILES")" 0.2
        ;;
esac
rm -rf "$MNT/warm"
check "checksums through the cache" sums_match "$MNT" /tmp/sums.source
need "remount" nfs_remount
check "checksums after remount" sums_match "$MNT" /tmp/sums.source
need "kill and start" crash
check "checksums after the crash, same mount" sums_match "$MNT" /tmp/sums.source
need "remount after the crash" nfs_remount
check "checksums after crash and remount" sums_match "$MNT" /tmp/sums.source
check "remove all" sh -c "rm -rf $MNT/* && [ -z \"\$(ls -A $MNT)\" ]"
check "unmount" umount "$MNT"
finish
