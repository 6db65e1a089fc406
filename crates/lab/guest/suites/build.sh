# A programmer's errand on a slow disk (`cargo xtask slow-disk --help`): `git clone`, `make`, and the unmount, of a C tree that lies
# in the share as a git repository; TESTS are words for its `make`. Ours by versions 3 and 4.2, the latter as it comes and with
# `delegations=on`, and Linux' own server over XFS, each on a fresh disk in one boot. What the compiler takes all of them pay.
. /tmp/library
ROUNDS=${ROUNDS:-1} DURABLE_US=${DURABLE_US:-8000} WRITE_US=${WRITE_US:-0}
POOL_DISK=/dev/nbd0 LOG_DISK=
CONTENDERS="tally,3 tally,4.2 tally-on,4.2 knfsd-xfs,3 knfsd-xfs,4.2"
[ "$SERVER" = tally ] || CONTENDERS="$SERVER,3 $SERVER,4.2"
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*'

errand() { # errand FOLDER
    git clone --quiet file:///tmp/tree "$1" && make --silent -C "$1" ${TESTS:-} > /tmp/make.log 2>&1 || { tail -n 5 /tmp/make.log; return 1; }
}
# All that is there but git's own, whose index knows times.
built() { (cd "$1" && find . -name .git -prune -o -type f -print0 | sort -z | xargs -0 sha256sum); }
as_at_home() { built "$1" > /tmp/is.built && cmp /tmp/at.home /tmp/is.built && git -C "$1" fsck --full && git -C "$1" diff --quiet; }

contend() { # contend SERVER VERSION ROUND
    local at="round $3, $1 by $2" counts_then started worked ended rpcs_then
    SERVER=${1%-on} NFS_VERSION=$2
    case $2 in 3) MOUNT_OPTIONS=vers=3,proto=tcp,nolock,hard ;; *) MOUNT_OPTIONS=vers=$2,proto=tcp,hard ;; esac
    need "$at: a fresh disk" slow_disk_attach nbd0 2048 "$DURABLE_US" "$WRITE_US"
    rm -rf /tmp/state
    need "$at: server starts" serve_start
    [ "$SERVER" = "$1" ] || need "$at: delegations" sh -c "cd /tmp/state && $TALLY dataset set delegations=on tank"
    need "$at: mount" nfs_mount
    mkdir -p "$MNT/warm" && echo x > "$MNT/warm/x"
    sync
    counts_then=$(slow_disk_counts nbd0) rpcs_then=$(rpc_count) started=$(date +%s%N)
    need "$at: clone and make" errand "$MNT/tree"
    worked=$(date +%s%N)
    need "$at: unmount" umount "$MNT"
    ended=$(date +%s%N)
    echo "$1,$2 $(((ended - started) / 1000000)) $(((ended - worked) / 1000000)) $(($(rpc_count) - rpcs_then)) $counts_then $(slow_disk_counts nbd0)" >> /tmp/results
    need "$at: mount to look" nfs_mount
    check "$at: as it is made elsewhere" as_at_home "$MNT/tree"
    need "$at: unmount again" umount "$MNT"
    need "$at: server stops" serve_stop
    need "$at: the disk goes" slow_disk_detach nbd0
}
# Milliseconds of one contender: least, median, greatest.
spread() { awk -v c="$1" '$1 == c {print $2}' /tmp/results | sort -n | awk '{v[NR] = $1} END {print v[1], v[int((NR + 1) / 2)], v[NR]}'; }
median() { spread "$1" | cut -d' ' -f2; }
turns() { awk -v c="$1" '$1 == c {t += $10 - $7} END {print t}' /tmp/results; }

cp -a /media/share/tree /tmp/tree
need "here" errand /tmp/home
built /tmp/home > /tmp/at.home
modprobe nbd nbds_max=1 max_part=0
for round in $(seq "$ROUNDS"); do
    for contender in $CONTENDERS; do contend $(echo "$contender" | tr , ' ') "$round"; done
done
note "$(wc -l < /tmp/at.home) files when it is built, disk with $DURABLE_US µs a durable write, $ROUNDS rounds"
for contender in $CONTENDERS; do
    set -- $(spread "$contender")
    note "$(printf '%-14s median %6d ms (%d to %d); ' "$contender" "$2" "$1" "$3")$(awk -v c="$contender" '$1 == c {n++; u += $3; r += $4; w += $8 - $5; f += $9 - $6; t += $10 - $7}
        END {printf "of it the unmount %d ms; %d requests, %d writes, %d flushes, %d turns", u / n, r / n, w / n, f / n, t / n}' /tmp/results)"
done
case $CONTENDERS in
    tally,*)
        # less WHAT OURS PEER
        less() { local ours theirs; ours=$("$1" "$2") && theirs=$("$1" "$3") && [ "$ours" -lt "$theirs" ]; }
        as_slow() { turns() { echo 1000; }; median() { echo 1000; }; }
        for peer in tally,3 knfsd-xfs,3 knfsd-xfs,4.2; do
            # Times that a client keeps are written when it gives the file back, so `on` saves requests, and here no turns.
            SPOIL=as_slow check "by 4.2, fewer turns than $peer" less turns tally,4.2 $peer
            SPOIL=as_slow check "by 4.2, ahead of $peer" less median tally,4.2 $peer
            SPOIL=as_slow check "with delegations=on, ahead of $peer" less median tally-on,4.2 $peer
        done
        ;;
esac
finish
