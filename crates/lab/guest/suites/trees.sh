# Programs that people use: cp -a, rsync -a, git, SQLite; each checked again after a remount and a crash.
. /tmp/library
need "server starts" serve_start
need "mount" nfs_mount
# A source tree with links, odd modes and times: part of the guest's own system.
mkdir /tmp/tree && cp -a /usr/share/perl5 /usr/lib/git-core /etc /tmp/tree/ 2>/dev/null
described() { (cd "$1" && find . ! -type d -printf '%y %m %U %G %s %T@ %l %p\n' | sort -k8; find . -type d -printf '%m %U %G %T@ %p\n' | sort -k5); }
same_tree() { described "$1" > /tmp/a.list; described "$2" > /tmp/b.list; cmp /tmp/a.list /tmp/b.list && diff -r --no-dereference "$1" "$2"; }
note "$(find /tmp/tree | wc -l) objects, $(du -sm /tmp/tree | cut -f1) MiB"
check "cp -a" cp -a /tmp/tree "$MNT/cp"
check "cp -a: same" same_tree /tmp/tree "$MNT/cp"
check "rsync -a" rsync -aH /tmp/tree/ "$MNT/rsync/"
check "rsync -a: same" same_tree /tmp/tree "$MNT/rsync"
nothing_to_do() { local done; done=$(rsync -aHi /tmp/tree/ "$MNT/rsync/") && [ -z "$done" ]; }
check "rsync again has nothing to do" nothing_to_do

work_with_git() (
    export GIT_AUTHOR_NAME=lab GIT_AUTHOR_EMAIL=lab@localhost GIT_COMMITTER_NAME=lab GIT_COMMITTER_EMAIL=lab@localhost
    git init -q "$MNT/repo" && cd "$MNT/repo" && cp -a /tmp/tree/perl5 . || return
    git add . && git commit -qm one || return
    local i
    for i in 1 2 3; do echo "$i" > "file$i"; git add . && git commit -qm "change $i" || return; done
    git gc -q --prune=now && git status --porcelain | cmp - /dev/null
)
fsck() { git -C "$MNT/repo" fsck --full --strict && [ "$(git -C "$MNT/repo" rev-list --count HEAD)" = 4 ]; }
check "git init, add, commit, gc" work_with_git
check "git fsck" fsck

cat > /tmp/sql.py <<'PY'
"""SQLite with its journal and FULL syncs; no locks over the network, so the database is opened exclusively."""
import sqlite3, sys
db = sqlite3.connect("file:/mnt/tank/db.sqlite?vfs=unix-none", uri=True, isolation_level=None)
db.execute("pragma synchronous=FULL"); db.execute("pragma journal_mode=DELETE")
if sys.argv[1] == "write":
    db.execute("create table t(k integer primary key, v text)")
    for i in range(200):
        db.execute("begin"); db.executemany("insert into t values(?, ?)", [(i * 10 + j, f"value {i} {j}" * 20) for j in range(10)]); db.execute("commit")
    db.execute("begin"); db.execute("update t set v = v || '!' where k % 3 = 0"); db.execute("commit")
assert db.execute("pragma integrity_check").fetchone() == ("ok",)
assert db.execute("select count(*), sum(length(v)) from t").fetchone()[0] == 2000
assert db.execute("select v from t where k = 999").fetchone()[0] == "value 99 9" * 20 + "!"
PY
check "SQLite" python3 /tmp/sql.py write
again() {
    check "$1: cp -a" same_tree /tmp/tree "$MNT/cp"
    check "$1: rsync -a" same_tree /tmp/tree "$MNT/rsync"
    check "$1: git fsck" fsck
    check "$1: SQLite" python3 /tmp/sql.py read
}
need "remount" nfs_remount
again "after a remount"
need "kill and start" crash
again "after a crash"
need "remount after the crash" nfs_remount
again "after crash and remount"
remove_all() { rm -rf "$MNT"/{cp,rsync,repo,db.sqlite} && empty "$MNT"; }
SPOIL="there_stay $MNT/cp" check "remove all" remove_all
finish
