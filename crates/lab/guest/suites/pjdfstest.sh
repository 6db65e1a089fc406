# POSIX, one call after the other: pjdfstest, of which a built copy lies in the share. What it says of Linux' own server as
# well is in `pjdfstest.known` (docs/testing.md, "Suites of others").
. /tmp/library
need "server starts" serve_start
need "mount" nfs_mount
cp -a /media/share/pjdfstest /tmp/pjdfstest
# What it says is kept beside the output.
SAID=/media/share/said
mkdir -p $SAID "$MNT/pjd"
# What it does between its calls, in the shell alone: to start a program takes 20 ms here, and it would start some thirty thousand.
cat >> /tmp/pjdfstest/tests/misc.sh <<'SH'
expect()
{
	local wanted=$1 got; shift
	got=$("$fstest" $* 2> /dev/null); got=${got##*$'\n'}
	if [[ $got =~ ^($wanted)$ ]]; then
		echo "ok $ntest${todomsg:+ # TODO $todomsg}"
	elif [ -n "$todomsg" ]; then
		echo "not ok $ntest # TODO $todomsg"
	else
		echo "not ok $ntest - tried '$*', expected $wanted, got $got"
	fi
	todomsg=
	: $((ntest += 1))
}
namegen() { printf 'pjdfstest_%08x%08x%08x%08x' $SRANDOM $SRANDOM $SRANDOM $SRANDOM; }
namegen_len()
{
	local name=
	while [ ${#name} -lt "$1" ]; do printf -v name '%s%08x' "$name" $SRANDOM; done
	printf %s "${name:0:$1}"
}
SH
# Each file of checks in a folder of its own; what was planned and not said failed as well.
cat > /tmp/one.sh <<'SH'
name=${1#./}; said=/media/share/said/${name//\//.}
mkdir -p "/mnt/tank/pjd/$name" && cd "/mnt/tank/pjd/$name" || exit
timeout 1800 bash "/tmp/pjdfstest/tests/$name" > "$said" 2>&1
awk -v name="$name" '
    /^1\.\./ { planned = substr($1, 4) + 0 }
    /^ok / { said[$2] = 1 }
    /^not ok / { said[$3] = 1; if (!/# TODO/) { $1 = $2 = ""; sub(/^ */, ""); print name, $0 } }
    END { for (n = 1; n <= planned; n++) if (!said[n]) print name, n, "was not said" }' "$said" > "$said.failed"
SH
# It sleeps a second wherever time has to pass, so several at once.
carried_out() (cd /tmp/pjdfstest/tests && find ${TESTS:-.} -name '*.t' | sort -r | xargs -P 10 -n 1 bash /tmp/one.sh)
need "all of it is carried out" carried_out
count() { cat $SAID/*.t | grep -c "^$1"; }
note "$(count 'ok ') said ok, $(count 'not ok ') not"
cat $SAID/*.failed > /tmp/failed
awk '{print $1, $2}' /tmp/failed | sort > /tmp/failed.names
grep -v '^#' /tmp/pjdfstest.known | awk '{print $1, $2}' | sort > /tmp/known.names
grep -v -F -x -f /tmp/known.names /tmp/failed.names > /tmp/unknown.names
[ ! -s /tmp/unknown.names ] || grep -F -f /tmp/unknown.names /tmp/failed | sed 's/^/# /'
many() { [ "$(count 'ok ')" -gt "${1:-7000}" ]; }
[ -n "${TESTS:-}" ] || SPOIL="SAID=/media" check "most of it is said to be well" many
as_known() { [ -f /tmp/failed ] && [ ! -s "${unknown:=/tmp/unknown.names}" ]; }
SPOIL="unknown=/etc/passwd" check "nothing else fails than by Linux' server" as_known
need "unmount" umount "$MNT"
finish
