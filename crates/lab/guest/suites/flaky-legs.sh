# Legs of two mirrors and of a mirrored log are made slow, flaky, silent and dead by the kernel's device mapper, come back,
# leave, are replaced and scrubbed, and the server is killed again and again, while the kernel's client changes files and
# keeps a ledger of what it was promised (flaky-legs/load.py; flaky-legs/drive.py is who does all that). At the end each
# leg of each mirror has to have all of it by itself. LOAD_SECONDS says how long, SEED what is drawn.
. /tmp/library
if [ "$SERVER" != tally ]; then note "only this server has pools"; echo "0 passed, 0 failed, 1 skipped"; exit 0; fi
LOAD_SECONDS=${LOAD_SECONDS:-120} SEED=${SEED:-$RANDOM}
LEDGERS=/media/share/ledgers
DISKS=
tally() { (cd /tmp/state && "$TALLY" "$@"); }
# Two mirrors, a spare and two disks for whoever is replaced; a log, and one more disk for that. What is below has no name any
# more: a server that starts finds the pool's disks by their labels, and would get past the one that fails.
disks_make() {
    modprobe -a dm-mod dm-flakey dm-delay dm-zero || return
    local disk sectors name below number=0
    for disk in a b c d e f g h i j; do
        sectors=$(cat "/sys/block/ubd$disk/size") below=$(cat "/sys/block/ubd$disk/dev") name=data$disk
        case $disk in h | i | j) name=log$disk ;; esac
        dmsetup create "$name" --noudevsync --table "0 $sectors linear $below 0" || return
        [ -b "/dev/dm-$number" ] && rm "/dev/ubd$disk" || return
        DISKS="$DISKS $name=$sectors=$below" number=$((number + 1))
    done
}
tally_create() {
    "$TALLY" pool create tank mirror /dev/dm-0 /dev/dm-1 mirror /dev/dm-2 /dev/dm-3 log mirror /dev/dm-7 /dev/dm-8 &&
        "$TALLY" pool add tank spare /dev/dm-4 && "$TALLY" pool set hang_limit=5 tank
}
until_imported() { local tries; for tries in $(seq 300); do tally pool list tank > /dev/null 2>&1 && return; sleep 0.1; done; }
state_is() { until_imported; [ "$(tally pool list -H -p tank | cut -f6)" = "$1" ] || { tally pool status tank; return 1; }; }
drive() { python3 /tmp/drive.py "$LOAD_SECONDS" "$SEED" "$LEDGERS" "$TALLY_PID" $DISKS; }
all_there() { python3 /tmp/load.py check "$MNT" "$LEDGERS"; }
# legs N: the device of the Nth leg of each mirror.
legs() {
    tally pool status --json tank | python3 -c '
import json, sys
for vdev in json.load(sys.stdin)[0]["vdevs"]: print(vdev["children"][int(sys.argv[1])]["name"])' "$1"
}
# table DEVICE linear|zero
table() {
    set -- "/sys/block/${1#/dev/}/dm/name" "$2"; set -- "$(cat "$1")" "$2"
    local words; words=$(echo "$DISKS" | tr ' ' '\n' | sed -n "s/^$1=//p")
    dmsetup suspend --noudevsync --noflush --nolockfs "$1" &&
        case $2 in
            linear) dmsetup load --noudevsync "$1" --table "0 ${words%%=*} linear ${words#*=} 0" ;;
            zero) dmsetup load --noudevsync "$1" --table "0 ${words%%=*} zero" ;;
        esac && dmsetup resume --noudevsync "$1"
}
# start_with LEGS OTHERS: the others read as zeroes, and what is written there is gone.
start_with() {
    local leg
    for leg in $1; do table "$leg" linear || return; done
    for leg in $2; do table "$leg" zero || return; done
    rm -rf /tmp/state && cp -a /tmp/state.then /tmp/state && tally_start && until_imported
}
nothing_damaged() {
    tally pool status --json tank | python3 -c '
import json, sys
pool = json.load(sys.stdin)[0]; print(pool["scrub"]["words"], pool["space_alarms"], len(pool["damage"]), "damaged")
sys.exit(pool["scrub"]["state"] != "finished" or pool["scrub"]["errors"] + pool["unrepaired"] + pool["leaks"] + len(pool["damage"] + pool["space_alarms"]))'
}

note "seed $SEED, $LOAD_SECONDS s"
mkdir "$LEDGERS"
need "disks" disks_make
need "server starts" serve_start
need "mount" nfs_mount
python3 /tmp/load.py work "$MNT" "$LEDGERS" "$SEED" > "$LEDGERS/load" 2>&1 & LOAD_PID=$! MOUNT_IN_USE=yes
need "legs come and go, servers are killed" drive
cat /tmp/check.log
TALLY_PID=$(cat /tmp/tally.pid)
touch "$LEDGERS/enough"
wait "$LOAD_PID"; loaded=$? MOUNT_IN_USE=
noticed_nothing() { cat "$LEDGERS/load"; [ "$loaded" = 0 ]; }
SPOIL="loaded=1" check "the clients noticed nothing" noticed_nothing
note "$(python3 /tmp/load.py count "$LEDGERS")"
first=$(legs 0) second=$(legs 1)
# Started by the driver, so nobody here can wait for it.
kill -KILL "$TALLY_PID"; while grep -q '^State:[[:space:]]*[^ZX]' "/proc/$TALLY_PID/status" 2> /dev/null; do sleep 0.1; done
cp -a /tmp/state /tmp/state.then

# A server that only fails is not waited for.
unasked="until_imported() { :; }"
need "start with the first leg of each mirror" start_with "$first" "$second"
SPOIL=$unasked check "the pool says so" state_is DEGRADED
need "remount over the first legs" nfs_remount
check "all is there on the first legs" all_there
tally_kill
need "start with the second leg of each mirror" start_with "$second" "$first"
SPOIL=$unasked check "the pool says so" state_is DEGRADED
need "remount over the second legs" nfs_remount
check "all is there on the second legs" all_there
for leg in $first; do
    need "a new disk at $leg" table "$leg" linear
    dd if=/dev/zero of="$leg" bs=1M oflag=direct 2> /dev/null
    need "it is in its place" tally pool replace tank "$leg"
done
SPOIL=$unasked check "whole again" state_is ONLINE
need "scrub" tally pool scrub -w tank
check "it finds nothing damaged" nothing_damaged
need "remount at last" nfs_remount
check "all is there at last" all_there
note "$(tail -n 1 /tmp/check.log)"
finish
