# A mount with no option but the server and its path, and of the root of all that is exported: of version 4, which has such a root and asks for
# no other port. What is a way to something else, what is crossed, and how large each is.
. /tmp/library
[ "$NFS_VERSION" != 3 ] || NFS_VERSION=4.2
if [ "$SERVER" != tally ]; then note "only this server has datasets"; echo "0 passed, 0 failed, 1 skipped"; exit 0; fi
tally() { (cd /tmp/state && "$TALLY" "$@"); }
# The newest version is what the client asks for by itself.
OPTIONS=; [ "$NFS_VERSION" = 4.2 ] || OPTIONS="-o vers=$NFS_VERSION"
bare() { mkdir -p "$2" && timeout 60 mount $OPTIONS "$1" "$2"; }
mounts=/proc/mounts
# mounted FOLDER: as NFS, in the version that was meant.
mounted() { awk -v folder="$1" -v version="vers=$NFS_VERSION" '$2 == folder && $3 == "nfs4" && index($4, version) {found = 1} END {exit !found}' "$mounts"; }
need "server starts" serve_start
need "create tank/home" tally dataset create tank/home
need "create tank/home/deep" tally dataset create tank/home/deep
need "quota" tally dataset set refquota=64M tank/home
need "mount a dataset" bare 127.0.0.1:/tank "$MNT"
SPOIL="mounts=/proc/self/stat" check "it is mounted" mounted "$MNT"
check "and can be written" sh -c "echo parent > $MNT/file && echo child > $MNT/home/file && echo deep > $MNT/home/deep/file"
need "unmount it" umount -l "$MNT"
need "mount what is below it" bare 127.0.0.1:/tank/home "$MNT"
check "that is the child" [ -f "$MNT/deep/file" ]
need "unmount that" umount -l "$MNT"

need "mount the root of all" bare 127.0.0.1:/ "$MNT"
SPOIL="mounts=/proc/self/stat" check "that is mounted" mounted "$MNT"
holds() { local names; names=$(ls -A "$1") && echo "$names" && [ "$names" = "$2" ]; }
check "it has what is exported, and nothing else" holds "$MNT" tank
check "what is in there" sh -c "[ \"\$(cat $MNT/tank/file $MNT/tank/home/file $MNT/tank/home/deep/file | tr '\n' ' ')\" = 'parent child deep ' ]"
fsids() { stat -c %d "$MNT" "$MNT/tank" "$MNT/tank/home" "$MNT/tank/home/deep" | sort -u | wc -l; }
four_fsids() { [ "$(fsids)" = 4 ]; }
check "each has its own fsid" four_fsids
size_is() { local size; size=$(df -k --output=size "$1" | tail -1) && echo "$size" && between "$2" "$size" "$3"; }
SPOIL="there_are $MNT/tank/home" check "df of the child tells its quota" size_is "$MNT/tank/home" 1 65536
SPOIL="there_are $MNT/tank" check "df of the parent tells the pool" size_is "$MNT/tank" 1000000 9000000
listed() { df "$MNT" | awk -v folder="$MNT" '$1 == "127.0.0.1:/" && $NF == folder {found = 1} END {exit !found}'; }
check "df of the root of all has a line" listed
# Several ways to change it, none of which may be.
untouched() {
    [ -d "$MNT/tank" ] || return
    local outcome=0
    for change in "touch $MNT/new" "mkdir $MNT/new" "rmdir $MNT/tank" "mv $MNT/tank $MNT/other" "chmod 700 $MNT" "ln -s x $MNT/link" "mknod $MNT/fifo p"; do
        if $change 2>&1; then echo "done: $change"; outcome=1; fi
    done
    return $outcome
}
SPOIL="there_are $MNT/tank" check "the root of all is nobody's to change" untouched
modes() { [ "$(stat -c '%A %F' "$MNT")" = "dr-xr-xr-x directory" ]; }
SPOIL="there_are $MNT" check "and says so" modes
as_user() { setpriv --reuid 1000 --regid 1000 --clear-groups sh -c "ls $MNT && cat $MNT/tank/home/file"; }
check "everybody may go through it" as_user

# A dataset that nobody may see is a way to what one may.
need "the parent is exported no more" tally dataset set sharenfs=off tank
need "and the child is" tally dataset set "sharenfs=127.0.0.1(rw,no_root_squash)" tank/home
remount() { umount -l "$MNT" && sleep 1 && bare 127.0.0.1:/ "$MNT"; }
need "mount anew" remount
check "the way has but the child" holds "$MNT/tank" home
check "which is there" sh -c "[ \"\$(cat $MNT/tank/home/file)\" = child ]"
still_four() { [ -f "$MNT/tank/home/deep/file" ] && [ "$(fsids)" -ge 3 ]; }
check "and has its own fsid" still_four
check "and can be written" sh -c "echo more > $MNT/tank/home/more && [ ! -e $MNT/tank/file ]"
need "kill and start" crash
check "behind a restart it is there" sh -c "[ \"\$(cat $MNT/tank/home/more)\" = more ]"
echo 3 > /proc/sys/vm/drop_caches
check "without what was cached too" sh -c "[ \"\$(cat $MNT/tank/home/deep/file $MNT/tank/home/more | tr '\n' ' ')\" = 'deep more ' ]"
need "unmount all" umount -l "$MNT"
finish
