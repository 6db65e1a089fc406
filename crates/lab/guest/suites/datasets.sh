# Child datasets: crossed by the client on its own, with their own fsid, `df` in both, `mv` across them, another rule.
. /tmp/library
if [ "$SERVER" != tally ]; then note "only this server has datasets"; echo "0 passed, 0 failed, 1 skipped"; exit 0; fi
tally() { (cd /tmp/state && "$TALLY" "$@"); }
need "server starts" serve_start
need "create tank/home" tally dataset create tank/home
need "create tank/home/deep" tally dataset create tank/home/deep
need "quota" tally dataset set refquota=64M tank/home
need "mount" nfs_mount
check "the child is there" [ -d "$MNT/home" ]
echo parent > "$MNT/file"
check "write in the child" sh -c "echo child > $MNT/home/file && echo deep > $MNT/home/deep/file"
mounts=/proc/mounts
mounted() { grep -q " $MNT/home nfs" "$mounts"; }
SPOIL="mounts=/proc/self/stat" check "the client mounted it by itself" mounted
# A tree with modes, owners, times and links, moved across as `mv` does it: copied, then removed.
mkdir -p "$MNT/branch/twig" && echo leaf > "$MNT/branch/twig/leaf" && ln -s twig/leaf "$MNT/branch/link"
chown 1234:4321 "$MNT/branch/twig/leaf"; chmod 4751 "$MNT/branch/twig/leaf"; touch -d @1000000000.123456789 "$MNT/branch/twig/leaf" "$MNT/branch/twig"
described() { (cd "$1" && find . -printf '%y %m %U %G %T@ %l %p ' \( -type d -printf '\n' -o -printf '%s\n' \) | sort); }
described "$MNT/branch" > /tmp/branch.list
check "mv across" sh -c "mv $MNT/file $MNT/home/moved && [ \"\$(cat $MNT/home/moved)\" = parent ] && [ ! -e $MNT/file ]"
check "mv of a tree across" sh -c "mv $MNT/branch $MNT/home/ && [ ! -e $MNT/branch ]"
moved() { described "$MNT/home/branch" | diff /tmp/branch.list - && [ "$(cat "$MNT/home/branch/link")" = leaf ]; }
check "the same tree" moved
# size_is FOLDER KIB_MIN KIB_MAX
size_is() { local size; size=$(df -k --output=size "$1" | tail -1) && between "$2" "$size" "$3"; }
another_fsid() { local of_parent of_child; of_parent=$(stat -c %d "$MNT") && of_child=$(stat -c %d "$MNT/home/file") && [ "$of_parent" != "$of_child" ]; }
# What holds of parent and child whenever somebody looks: `both WHEN FOLDER-OF-THE-GRANDCHILD`.
both() {
    SPOIL="there_are $MNT/home/file" check "$1: another fsid" another_fsid
    SPOIL="there_are $MNT/home/file" check "$1: df tells the quota" size_is "$MNT/home/file" 1 65536
    check "$1: df tells the pool" size_is "$MNT" 1000000 9000000
    check "$1: the moved tree" moved
    check "$1: content" sh -c "[ \"\$(cat $MNT/home/file $MNT/home/moved $2/file | tr '\n' ' ')\" = 'child parent deep ' ]"
}
both "at once" "$MNT/home/deep"
SPOIL="there_are $MNT/home && touch $MNT/home/moved" check "no hard link across" sh -c "! ln $MNT/home/moved $MNT/linked 2>/dev/null"
# Random bytes: zeros are compressed to almost nothing, and a quota counts what is stored.
SPOIL="there_are $MNT/home" check "the quota holds" sh -c "! dd if=/dev/urandom of=$MNT/home/big bs=1M count=100 conv=fsync 2>/dev/null"
check "and removal works then" rm "$MNT/home/big"
need "read-only rule" tally dataset set readonly=on tank/home/deep
SPOIL="there_are $MNT/home/deep" check "it is kept" sh -c "! echo x > $MNT/home/deep/new"
check "rename the dataset" tally dataset rename tank/home/deep tank/home/deeper
# The client unmounts by itself what it mounted by itself, but only after minutes.
remount() { umount -l "$MNT" && sleep 1 && nfs_mount; }
need "remount" remount
both "after a remount" "$MNT/home/deeper"
need "kill and start" crash
both "after a crash" "$MNT/home/deeper"
need "remount after the crash" remount
both "after crash and remount" "$MNT/home/deeper"
finish
