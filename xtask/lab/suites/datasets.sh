# Child datasets: crossed by the client on its own, with their own fsid, `df` in both, `mv` across them, another rule.
. /tmp/library
if [ "$SERVER" != tally ]; then note "only this server has datasets"; echo "0 passed, 0 failed, 1 skipped"; exit 0; fi
tally() { (cd /tmp/state && "$TALLY" "$@"); }
need "server starts" serve_start
need "create tank/home" tally dataset create tank/home
need "create tank/home/deep" tally dataset create tank/home/deep
need "quota" tally dataset set quota=64M tank/home
need "mount" nfs_mount
check "the child is there" [ -d "$MNT/home" ]
echo parent > "$MNT/file"
check "write in the child" sh -c "echo child > $MNT/home/file && echo deep > $MNT/home/deep/file"
check "the client mounted it by itself" grep -q " $MNT/home nfs" /proc/mounts
check "another fsid" [ "$(stat -c %d "$MNT")" != "$(stat -c %d "$MNT/home")" ]
check "df tells the quota" [ "$(df -k --output=size "$MNT/home" | tail -1)" -le 65536 ]
check "df tells the pool" [ "$(df -k --output=size "$MNT" | tail -1)" -gt 1000000 ]
check "mv across" sh -c "mv $MNT/file $MNT/home/moved && [ \"\$(cat $MNT/home/moved)\" = parent ] && [ ! -e $MNT/file ]"
check "no hard link across" sh -c "! ln $MNT/home/moved $MNT/linked 2>/dev/null"
# Random bytes: zeros are compressed to almost nothing, and a quota counts what is stored.
check "the quota holds" sh -c "! dd if=/dev/urandom of=$MNT/home/big bs=1M count=100 conv=fsync 2>/dev/null"
check "and removal works then" rm -f "$MNT/home/big"
need "read-only rule" tally dataset set readonly=on tank/home/deep
check "it is kept" sh -c "! echo x > $MNT/home/deep/new"
check "rename the dataset" tally dataset rename tank/home/deep tank/home/deeper
umount -l "$MNT/home/deep" "$MNT/home" 2>/dev/null
need "remount" sh -c "umount -l $MNT; sleep 1"
need "mount again" nfs_mount
check "content after a remount" sh -c "[ \"\$(cat $MNT/home/file $MNT/home/moved $MNT/home/deeper/file | tr '\n' ' ')\" = 'child parent deep ' ]"
need "kill and start" crash
check "content after a crash" sh -c "[ \"\$(cat $MNT/home/file $MNT/home/moved $MNT/home/deeper/file | tr '\n' ' ')\" = 'child parent deep ' ]"
finish
