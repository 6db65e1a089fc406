# What a client sends that holds something while another one comes, seen in the packets: NFStest, of which a copy lies in the share
# with an interpreter (docs/testing.md, "Suites of others"). The other client is a network, a name and mounts of their own in this
# guest. TESTS names programs, or one of them and its tests.
. /tmp/library
NFSTEST=/media/share/nfstest ADDRESS=192.0.2.1 OTHER=192.0.2.2
other_machine() {
    unshare --net --uts --mount --propagation private sleep infinity & echo $! > /run/other-machine; sleep 1
    ip link add lab0 type veth peer name lab1 netns "$(cat /run/other-machine)" && ip address add $ADDRESS/24 dev lab0 && ip link set lab0 up && ip route add default dev lab0 &&
        ssh $OTHER "hostname tally-other && ip address add $OTHER/24 dev lab1 && ip link set lab1 up && ip link set lo up"
}
reachable() { ssh $OTHER python -c "'import socket; socket.create_connection((\"$ADDRESS\", ${MOUNT_EXTRA##*=}))'"; }
mkdir -p /tmp/bin /mnt/t; PATH=/tmp/bin:$PATH
# Its programs are of the second version of their language, and go to the other machine by ssh.
cat > /tmp/bin/python <<SH
#!/bin/sh
export PYTHONHOME=$NFSTEST/python2/usr LD_LIBRARY_PATH=$NFSTEST/python2/usr/lib/x86_64-linux-gnu PYTHONPATH=$NFSTEST PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
exec $NFSTEST/python2/usr/bin/python2.7 "\$@"
SH
cat > /tmp/bin/ssh <<'SH'
#!/bin/sh
while case $1 in -*) true ;; *) false ;; esac; do shift; done
shift
exec nsenter -t "$(cat /run/other-machine)" -n -u -m sh -c "$*"
SH
# One capture of both clients: one of them comes over the loopback, the other one by its own network.
cat > /tmp/bin/tcpdump <<'PY'
#!/usr/bin/python3 -E
import signal, socket, struct, sys, time
out = open(sys.argv[sys.argv.index("-w") + 1], "wb", 1 << 20)
out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 1 << 18, 1))
heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
heard.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUFFORCE if hasattr(socket, "SO_RCVBUFFORCE") else 33, 64 << 20)
def end(*_): out.close(); sys.exit(0)
signal.signal(signal.SIGTERM, end); signal.signal(signal.SIGINT, end)
print("listening on all", file=sys.stderr, flush=True)
while True:
    packet, (interface, protocol, kind, *_) = heard.recvfrom(1 << 18)
    # Over the loopback each is heard as it goes and as it comes.
    if protocol == 0x800 and not (interface == "lo" and kind == socket.PACKET_OUTGOING):
        now = time.time_ns() // 1000
        out.write(struct.pack("<IIII", now // 1000000, now % 1000000, len(packet), len(packet)) + packet); out.flush()
PY
chmod 755 /tmp/bin/*
need "another machine" other_machine
need "server starts" serve_start --listen 0.0.0.0
case $SERVER in
    knfsd-*) shared() { exportfs -i -o rw,no_root_squash,no_subtree_check,fsid=0,insecure $ADDRESS/24:/mnt/served; } ;;
    *) shared() { (cd /tmp/state && "$TALLY" dataset set "sharenfs=$ADDRESS/24(rw,no_root_squash)" tank && "$TALLY" dataset set delegations=on atime=on recordsize=64K tank); } ;;
esac
need "exported to both" shared
need "the other machine comes to the server" reachable

# carried_out PROGRAM TEST…: what each of its tests says stands behind its name.
carried_out() {
    local program=$1 names; shift; names="$*"
    timeout "${LIMIT:-1500}" python $NFSTEST/test/nfstest_"$program" --server $ADDRESS --export "$EXPORT" --port "${MOUNT_EXTRA##*=}" --nfsversion "$NFS_VERSION" \
        --mtpoint /mnt/t --interface lo --client-ipaddr $ADDRESS --mtopts hard --tcpdump /tmp/bin/tcpdump --tmpdir /tmp --notty ${OTHERS_WORDS:-} ${names:+--runtest "${names// /,}"} > "/media/share/said.$program" 2>&1
    echo "# $program ended with $?; $(tail -n 3 "/media/share/said.$program" | grep -v '^$' | tr '\n' ' ')"
    awk -v program="$program" '
        /TEST: Running test / { split($0, part, "\047"); name = program "/" part[2]; verdicts[name] = "pass"; order[++count] = name }
        / FAIL: / { if (name) { verdicts[name] = "fail"; why[name] = why[name] "\n#    " $0 } else { print program "/itself fail " $0 } }
        END { for (n = 1; n <= count; n++) print order[n], verdicts[order[n]] why[order[n]] }' "/media/share/said.$program" > /tmp/verdicts.now
    grep -v '^#' /tmp/verdicts.now >> $VERDICTS
    grep -v ' pass$' /tmp/verdicts.now
    umount /mnt/t 2> /dev/null
    return 0
}
if [ -n "${TESTS:-}" ]; then
    case ${TESTS%% *} in lock | delegation) OTHERS_WORDS="--client $OTHER" ;; esac
    carried_out $TESTS
else
    carried_out posix
    [ "$NFS_VERSION" = 4.2 ] && carried_out sparse seek && carried_out alloc dealloc
    OTHERS_WORDS="--client $OTHER"
    carried_out lock
    # Of the delegations of RFC 9754, which this client asks for by 4.2, it knows nothing.
    [ "$NFS_VERSION" != 4.1 ] || carried_out delegation
fi
note "$(said pass) passed, $(said fail) failed"
[ -n "${TESTS:-}" ] || SPOIL="VERDICTS=/dev/null" check "most of them pass" passed_at_least 60
SPOIL="VERDICTS=/dev/null" check "nothing fails that passes by Linux' own server" fails_as_known /tmp/nfstest.known
kill "$(cat /run/other-machine)"
finish
