# Locks between hosts of version 3, clients of version 4 and a mount of the server's own machine: who keeps whom out, who waits, and what is left of it
# when somebody dies, or the server. TESTS names parts of it: hosts, mount, restart, away, anew. Each host has a network of its own, with its portmapper and its status monitor, and so has the server: on one
# machine they would share one port 111.
. /tmp/library
NFS_VERSION=3
modprobe -a veth fuse 2>/dev/null
# host NAME: somewhere with a network, mounts and files of its own. Commands run there by `in_host NAME COMMAND…`.
host() {
    unshare --net --mount --uts sh -c 'hostname "$1"; exec sleep 100000' sh "$1" & eval "HOST_$1=$!"
    local pid=$!
    until [ "$(readlink "/proc/$pid/ns/net")" != "$(readlink /proc/self/ns/net)" ] && [ "$(cat "/proc/$pid/comm")" = sleep ]; do sleep 0.1; done
    in_host "$1" sh -c 'mount -t tmpfs run /run && mkdir -p /run/rpcbind /run/lock && mount -t tmpfs nfs /var/lib/nfs &&
        mkdir -p /var/lib/nfs/sm /var/lib/nfs/sm.bak /var/lib/nfs/rpc_pipefs && touch /var/lib/nfs/state /var/lib/nfs/etab /var/lib/nfs/rmtab && ip link set lo up'
}
in_host() { local pid=HOST_$1; shift; nsenter --target "${!pid}" --net --mount --uts --wd="$PWD" "$@"; }
# cable NAME NUMBER: from it to the server.
cable() {
    ip link add "to$1" type veth peer name server && ip link set "to$1" netns "$HOST_server" && local pid=HOST_$1 && ip link set server netns "${!pid}" &&
    in_host server ip address add "10.9.$2.1/24" dev "to$1" && in_host server ip link set "to$1" up &&
    in_host "$1" ip address add "10.9.$2.2/24" dev server && in_host "$1" ip link set server up
}
two_hosts() {
    host server && host one && host two && cable one 1 && cable two 2 || return
    # Names as the notices have them: the server calls itself by its own.
    printf '127.0.0.1 localhost\n10.9.1.1 server\n' > /tmp/hosts.one
    printf '127.0.0.1 localhost\n10.9.2.1 server\n' > /tmp/hosts.two
    local each
    for each in one two; do
        in_host $each mount --bind /tmp/hosts.$each /etc/hosts
        in_host $each rpcbind -w && in_host $each rpc.statd --no-notify || return
    done
    in_host server rpcbind -w
}
need "a server and two hosts, each in a network of its own" two_hosts

cat > /tmp/tally-there <<'SH'
#!/bin/sh
exec nsenter --target $(cat /tmp/server.pid) --net --mount --uts --wd="$PWD" /tmp/tally "$@"
SH
chmod +x /tmp/tally-there; echo "$HOST_server" > /tmp/server.pid; TALLY=/tmp/tally-there
answers() { in_host server bash -c "exec 3<> /dev/tcp/127.0.0.1/$PORT" 2>/dev/null; }
start() {
    mkdir -p /tmp/state && cd /tmp/state || return
    printf 'first_pool = false\nnlm = true\n' > config.toml
    "$TALLY" serve --config config.toml --port "$PORT" --listen 0.0.0.0 --lease-time 20 ${SERVE_WORDS:-} >> /tmp/tally.log 2>&1 & TALLY_PID=$!
    cd /tmp || return
    local tries
    for tries in $(seq 300); do answers && return; kill -0 "$TALLY_PID" 2>/dev/null || break; sleep 0.1; done
    tail -n 20 /tmp/tally.log; return 1
}
tell_tally() { (cd /tmp/state && "$TALLY" "$@"); }
first_start() { start && (cd /tmp/state && tally_create) && tell_tally dataset set "sharenfs=10.9.0.0/16(rw,no_root_squash)" tank; }
need "server starts" first_start
# nfs HOST FOLDER NUMBER VERSION
nfs() {
    local options=vers=$4,proto=tcp,hard,timeo=50
    [ "$4" != 3 ] || options=$options,mountproto=tcp
    in_host "$1" sh -c "mkdir -p '$2' && mount -t nfs -o $options 10.9.$3.1:/tank '$2'"
}
need "one mounts by version 3" nfs one /mnt/three 1 3
need "and by version 4.2" nfs one /mnt/four 1 4.2
need "two mounts by version 3" nfs two /mnt/three 2 3
need "and by version 4.2" nfs two /mnt/four 2 4.2
local_mount() { in_host server mkdir -p /mnt/local && tell_tally mount tank /mnt/local; }
need "the server's own machine mounts it" local_mount

cat > /tmp/hold.py <<'PY'
"""Holds a file open, to read it alone if that is said, and does what it is told with it."""
import os, sys, fcntl
fd = os.open(sys.argv[1], os.O_RDONLY if sys.argv[2:] == ["read"] else os.O_RDWR | os.O_CREAT, 0o666)
print("open", flush=True)
for line in sys.stdin:
    word, *rest = line.split()
    if word == "end": break
    try:
        if word == "lock":
            kind = {"x": fcntl.LOCK_EX, "s": fcntl.LOCK_SH}[rest[0]]
            fcntl.lockf(fd, kind | fcntl.LOCK_NB, int(rest[2]), int(rest[1])); print("ok", flush=True)
        elif word == "wait": fcntl.lockf(fd, fcntl.LOCK_EX); print("ok", flush=True)
        elif word == "unlock": fcntl.lockf(fd, fcntl.LOCK_UN); print("ok", flush=True)
        elif word == "flock": fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB); print("ok", flush=True)
        elif word == "flock-wait": fcntl.flock(fd, fcntl.LOCK_EX); print("ok", flush=True)
        elif word == "funlock": fcntl.flock(fd, fcntl.LOCK_UN); print("ok", flush=True)
    except OSError as error: print(error.strerror, flush=True)
PY
# hold NAME HOST FILE [read] starts one there whose words go to it by `tell NAME WORDS…`, which prints its answer.
hold() {
    rm -f "/tmp/to.$1" "/tmp/from.$1"; mkfifo "/tmp/to.$1" "/tmp/from.$1"
    local there=HOST_$2
    nsenter --target "${!there}" --net --mount --uts python3 /tmp/hold.py "$3" ${4:-} < "/tmp/to.$1" > "/tmp/from.$1" 2>&1 &
    eval "PID_$1=$!"; eval "exec {TO_$1}> /tmp/to.$1 {FROM_$1}< /tmp/from.$1"
    local fd=FROM_$1 word; read -r -t 60 -u "${!fd}" word; [ "$word" = open ] || { echo "$word"; return 1; }
}
say() { local to=TO_$1; shift; echo "$*" >&"${!to}"; }
# hears NAME SECONDS: what it says next, or nothing.
hears() { local from=FROM_$1 answer=; read -r -t "$2" -u "${!from}" answer; echo "$answer"; }
tell() { say "$@"; hears "$1" "${PATIENCE:-60}"; }
says() { local wanted=$1 answer; shift; answer=$(tell "$@"); echo "$answer"; [ "$answer" = "$wanted" ]; }
let_go() { local to=TO_$1 from=FROM_$1 pid=PID_$1; echo end >&"${!to}"; wait "${!pid}"; eval "exec ${!to}>&- ${!from}<&-"; }
dies() { local pid=PID_$1 to=TO_$1 from=FROM_$1; kill -KILL "${!pid}"; wait "${!pid}" 2>/dev/null; eval "exec ${!to}>&- ${!from}<&-"; return 0; }
deaf='say() { :; }; hears() { echo no; }; tell() { echo no; }; dies() { :; }'
taken="Resource temporarily unavailable"
# got NAME SECONDS: it is told within so long.
got() { local answer; answer=$(hears "$1" "$2"); echo "$answer"; [ "$answer" = ok ]; }
# waits NAME: it does, and hears nothing for two seconds.
waits() { local answer; say "$1" "${2:-wait}"; answer=$(hears "$1" 2); echo "$answer"; [ -z "$answer" ]; }

# between NAME HOST FOLDER HOST FOLDER: one of the first has, one of the second wants.
between() {
    local name=$1 file=file.$RANDOM soon=${6:-5}
    need "$name: one opens a file" hold a "$2" "$3/$file"
    need "$name: another one opens it" hold b "$4" "$5/$file"
    SPOIL=$deaf check "$name: a range is locked" says ok a lock x 0 100
    SPOIL=$deaf check "$name: the other cannot have it" says "$taken" b lock x 50 100
    SPOIL=$deaf check "$name: nor share it" says "$taken" b lock s 99 1
    SPOIL=$deaf check "$name: what is beside it he can" says ok b lock x 100 50
    SPOIL=$deaf check "$name: which the first cannot have then" says "$taken" a lock x 149 1
    SPOIL=$deaf check "$name: both have what is shared" eval 'says ok a lock s 1000 10 && says ok b lock s 1005 10'
    SPOIL=$deaf check "$name: the other gives back" says ok b unlock
    SPOIL=$deaf check "$name: he waits for all" waits b
    SPOIL=$deaf check "$name: the first gives back" says ok a unlock
    SPOIL=$deaf check "$name: who waits has it soon" got b "$soon"
    SPOIL=$deaf check "$name: and keeps the first out" says "$taken" a lock x 0 1
    SPOIL=$deaf check "$name: who waits now" waits a
    dies a
    SPOIL=$deaf check "$name: and is killed, gives it back when he has it" says ok b unlock
    need "$name: another one comes" hold c "$2" "$3/$file"
    SPOIL=$deaf check "$name: what a dead one waited for is free" says ok c lock x 0 100
    SPOIL=$deaf check "$name: one waits for a holder" waits b
    dies c
    SPOIL=$deaf check "$name: that dies, and has it soon" got b "$soon"
    SPOIL=$deaf check "$name: he gives it back" says ok b unlock
    let_go b
}
# of flock, which a host sends as the whole file's range; on the mount it is the machine's own.
flocks() {
    local name=$1 file=flock.$RANDOM soon=${6:-5}
    need "$name: one opens a file" hold a "$2" "$3/$file"
    need "$name: another one opens it" hold b "$4" "$5/$file"
    SPOIL=$deaf check "$name: flock" says ok a flock
    SPOIL=$deaf check "$name: keeps the other out" says "$taken" b flock
    SPOIL=$deaf check "$name: who waits" waits b flock-wait
    SPOIL=$deaf check "$name: until it is free" says ok a funlock
    SPOIL=$deaf check "$name: and has it soon" got b "$soon"
    let_go a; let_go b
}
# reads NAME HOST FOLDER HOST FOLDER: the first opens a file to read it alone, by version 4 so that it is given it to keep, and locks it by itself then; the second wants it to write.
reads() {
    local name=$1 file=reads.$RANDOM
    need "$name: there is a file" eval "hold b '$4' '$5/$file' && let_go b"
    need "$name: one opens it to read" hold a "$2" "$3/$file" read
    SPOIL=$deaf check "$name: and locks it to read" says ok a lock s 0 100
    need "$name: another one comes" hold b "$4" "$5/$file"
    SPOIL=$deaf check "$name: and cannot lock it to write" says "$taken" b lock x 50 100
    SPOIL=$deaf check "$name: but to read" says ok b lock s 50 100
    SPOIL=$deaf check "$name: nor when it has that" says "$taken" b lock x 50 100
    SPOIL=$deaf check "$name: the first gives back" says ok a unlock
    SPOIL=$deaf check "$name: now it can" says ok b lock x 50 100
    let_go a
    need "$name: one opens it to read behind that" hold a "$2" "$3/$file" read
    SPOIL=$deaf check "$name: and cannot lock what is locked" says "$taken" a lock s 0 100
    SPOIL=$deaf check "$name: until that is given back" eval 'says ok b unlock && says ok a lock s 0 100'
    let_go a; let_go b
}
part() { case " ${TESTS:-$1} " in *" $1 "*) ;; *) false ;; esac; }
if part hosts; then
    between "3 and 3" one /mnt/three two /mnt/three
    flocks "3 and 3" one /mnt/three two /mnt/three
    # Who waits by version 4 asks again by itself, up to half a minute later.
    between "3 and 4" one /mnt/three two /mnt/four 60
    between "4 and 3" one /mnt/four two /mnt/three 60
    between "4 and 4" one /mnt/four two /mnt/four 60
    flocks "3 and 4" one /mnt/three two /mnt/four 60
    reads "4 reads, 3 writes" one /mnt/four two /mnt/three
    reads "4 reads, 4 writes" one /mnt/four two /mnt/four
fi
if part mount; then
    between "here and 3" server /mnt/local two /mnt/three
    between "3 and here" one /mnt/three server /mnt/local
    between "here and 4" server /mnt/local two /mnt/four 60
    between "4 and here" one /mnt/four server /mnt/local 60
    between "here and here" server /mnt/local server /mnt/local
    flocks "here and here" server /mnt/local server /mnt/local
fi

# Behind a restart of the server: a kill, and a clean stop. Those who had something have it.
restart() { case $1 in kill) tally_kill ;; *) tally_stop ;; esac; start; }
for how in $(part restart && echo kill stop); do
    file=restart.$how
    need "$how: one has a range" eval "hold a one /mnt/three/$file && says ok a lock x 0 100"
    need "$how: another one has another" eval "hold b two /mnt/three/$file && says ok b lock x 200 100"
    need "$how: a client of version 4 has a third" eval "hold c two /mnt/four/$file && says ok c lock x 400 100"
    need "$how: and the server is started anew" restart $how
    SPOIL=$deaf check "$how: behind it the first range is locked" says "$taken" b lock x 0 100
    SPOIL=$deaf check "$how: and the second" says "$taken" a lock x 200 1
    SPOIL=$deaf check "$how: and the third" says "$taken" a lock x 400 1
    SPOIL=$deaf check "$how: and by version 4 the first" says "$taken" c lock x 99 1
    SPOIL=$deaf check "$how: who waits" waits b
    dies a
    let_go c
    SPOIL=$deaf check "$how: has it when all others are gone" got b 60
    let_go b
done

pull() { in_host two ip link set server down; }
plug() { in_host two ip link set server up; }
# A host that waits and cannot be reached when its turn comes: the next one has it, and the first by asking again.
if part away; then
    need "away: a client has a range" eval 'hold a one /mnt/four/away && says ok a lock x 0 100'
    need "away: a host waits for it" eval 'hold b two /mnt/three/away && waits b'
    need "away: and its cable is pulled" pull
    SPOIL=$deaf check "away: the range is given back" says ok a unlock
    need "away: another host wants it" hold c one /mnt/three/away
    SPOIL=$deaf check "away: and has it, once the first one is given up" eval 'say c wait; got c 90'
    need "away: the cable is plugged in" plug
    SPOIL=$deaf check "away: who was not reached waits" eval '[ -z "$(hears b 3)" ]'
    SPOIL=$deaf check "away: until the other one gives back" says ok c unlock
    SPOIL=$deaf check "away: and has it by asking again" got b 60
    let_go a; let_go b; let_go c
fi

# A host that has started anew, as its status monitor says: what it had is others'. (It has not; a machine cannot lose a part of itself.)
notice() { in_host two sm-notify -f -m 1; }
if part anew; then
    need "anew: a host has a range" eval 'hold b two /mnt/three/anew && says ok b lock x 0 100'
    need "anew: another one waits for it" eval 'hold a one /mnt/three/anew && waits a'
    need "anew: its monitor tells that it has started anew" notice
    SPOIL=$deaf check "anew: who waited has what it had" got a 30
    let_go a; let_go b
fi
note "$(tail -n 3 /tmp/tally.log)"
need "unmount" eval 'in_host one umount /mnt/three /mnt/four && in_host two umount -f -l /mnt/three && in_host two umount -f -l /mnt/four'
finish
