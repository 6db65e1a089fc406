# Untar as an ordinary user: four durable requests a file instead of root's six.
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
check "four durable requests a file" between 4.0 "$(ratio "$durable" "$FILES")" 4.2
[ "$SERVER" != tally ] || check "one log write per durable request" between 0.98 "$(ratio "$(ratio "$writes_ubdb" "$unit_writes")" "$durable")" 1.02
check "checksums" sums_match "$MNT/home" /tmp/sums.source
check "owner" [ "$(find "$MNT/home" ! -uid 1000 | wc -l)" = 0 ]
finish
