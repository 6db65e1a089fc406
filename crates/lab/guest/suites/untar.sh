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
        enough_flushes() { [ "$flushes_ubdb" -ge "$durable" ]; }
        few_pool_writes() { between 0 "$(ratio "$writes_ubda" "$FILES")" 0.2; }
        SPOIL="writes_ubdb=0" check "one log write per durable request" one_log_write
        SPOIL="flushes_ubdb=0" check "no fewer log flushes than durable requests" enough_flushes
        SPOIL="writes_ubda=$durable" check "pool writes per file at most 0.2" few_pool_writes
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
remove_all() { rm -rf "$MNT"/* && empty "$MNT"; }
SPOIL="there_stay $MNT/d" check "remove all" remove_all
SPOIL="cd $MNT" check "unmount" umount "$MNT"
finish
