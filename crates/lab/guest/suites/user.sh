# Untar as an ordinary user: four durable requests a file instead of root's six; of version 4, whose OPEN sets what it is given, three
# instead of five.
. /tmp/library
FILES=${FILES:-4096}
small_files /tmp/source "$FILES"
tar -C /tmp/source -cf /tmp/source.tar .
sums /tmp/source > /tmp/sums.source
durable_write_unit ubdb
need "server starts" serve_start
need "mount" nfs_mount
mkdir "$MNT/home" && chown 1000:1000 "$MNT/home"
counts_before
check "untar as a user" setpriv --reuid 1000 --regid 1000 --clear-groups tar -C "$MNT/home" -xf /tmp/source.tar
counts_after "$FILES"
case $NFS_VERSION in 3) least=4.0 most=4.2 ;; *) least=3.0 most=3.2 ;; esac
few_requests() { between "$least" "$(ratio "$durable" "$FILES")" "$most"; }
SPOIL="durable=$((FILES * 6))" check "from $least to $most durable requests a file" few_requests
[ "$SERVER" != tally ] || SPOIL="writes_ubdb=0" check "one log write per durable request" one_log_write
check "checksums" sums_match "$MNT/home" /tmp/sums.source
all_his() { local others; others=$(find "$MNT/home" ! -uid 1000) && [ -z "$others" ]; }
SPOIL="there_are $MNT/home" check "owner" all_his
finish
