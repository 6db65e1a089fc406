"""The driver of the suite `flaky-legs`: hurts disks and servers below clients that work, and makes all well again.

    drive.py SECONDS SEED LEDGERS SERVER_PID DISK=SECTORS=DEVICE_BELOW…

Disks are device-mapper targets over the guest's disks. Each mirror is hurt by itself, so several may be one-legged at once, but
of each mirror one leg at a time, and only while the others have everything: the last good leg is never taken. Where all legs
of a mirror refuse at once, which happens on purpose too, all of them come back as they were. What is drawn is the seed's; when
it happens is not, since a guest has no time of its own.

Anything that is not as promised ends the run: a client that fails, a scrub with errors, a scrub beside which nothing was hurt
and that had something to repair, a disk that does not come back, a server that does not start.
"""
import collections, json, os, random, signal, socket, subprocess, sys, time

TALLY, POOL, PORT = "/tmp/tally", "tank", os.environ.get("PORT", "2049")
# Until everything must be well again, in seconds. Copies give way to clients.
PATIENCE = 300
# A command that takes longer hangs.
COMMAND_SECONDS = 240
# How long disks and servers are left as they are, in seconds.
WHILE = (0.2, 3)


class Found(Exception):
    """A promise that was broken."""


class Disk:
    def __init__(self, words, number):
        self.name, sectors, self.below = words.split("=")
        self.sectors, self.path, self.hurt = int(sectors), f"/dev/dm-{number}", None

    def table(self, target):
        dmsetup("suspend", "--noflush", "--nolockfs", self.name)
        dmsetup("load", self.name, "--table", f"0 {self.sectors} {target}")
        dmsetup("resume", self.name)

    def heal(self):
        if self.hurt == "hung":
            dmsetup("resume", self.name)
        elif self.hurt:
            self.table(f"linear {self.below} 0")
        self.hurt = None

    def hurt_by(self, kind):
        self.hurt = kind
        if kind == "hung":
            return dmsetup("suspend", "--noflush", "--nolockfs", self.name)
        self.table({
            "dead": "error",
            "flaky": f"flakey {self.below} 0 1 2",
            "refuses-writes": f"flakey {self.below} 0 1 2 1 error_writes",
            "slow": f"delay {self.below} 0 200",
            # Down from the beginning, and for the whole run.
            "forgets": f"flakey {self.below} 0 0 86400 1 drop_writes",
            "rots": f"flakey {self.below} 0 0 86400 2 random_read_corrupt 300000000",
        }[kind])


def dmsetup(*words):
    subprocess.run(["dmsetup", words[0], "--noudevsync", *words[1:]], check=True, stdout=subprocess.DEVNULL)


class Driver:
    def __init__(self, seconds, seed, ledgers, server, *disks):
        self.ends, self.ledgers, self.server = time.monotonic() + float(seconds), ledgers, int(server)
        self.random, self.counts, self.begun = random.Random(int(seed)), collections.Counter(), time.monotonic()
        self.disks = {disk.path: disk for disk in (Disk(words, number) for number, words in enumerate(disks))}
        self.log = open(f"{ledgers}/driver", "w", buffering=1)

    def say(self, *words):
        self.log.write(f"{time.monotonic() - self.begun:8.1f} {' '.join(map(str, words))}\n")

    # ---- the server ----

    def command(self, *words, kill=False):
        """Runs a command of ours; with `kill` the server perhaps dies of a sudden meanwhile. Whether it was done, and its words."""
        words = ["pool", words[0], *words[1:]]
        child = subprocess.Popen([TALLY, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd="/tmp/state", text=True)
        killed, began = kill and self.random.random() < 0.3, time.monotonic()
        if killed:
            time.sleep(self.random.uniform(0, 2))
            self.kill()
        try:
            said, _ = child.communicate(timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            raise Found(f"`tally {' '.join(words)}` has not ended after {COMMAND_SECONDS} s")
        if words[1] not in ("status", "wait"):
            seconds = f"({time.monotonic() - began:.1f} s)"
            self.say("$", *words[1:], "->", child.returncode, "killed" if killed else "", seconds, " ".join(said.split())[:400])
        return child.returncode == 0, said

    def kill(self):
        if any(disk.hurt == "hung" for disk in self.disks.values()):
            return
        self.say("kill")
        self.counts["kills"] += 1
        os.kill(self.server, signal.SIGKILL)
        while is_running(self.server):
            time.sleep(0.01)
        self.start()

    def start(self):
        out = open("/tmp/tally.log", "a")
        words = [TALLY, "serve", "--config", "config.toml", "--port", PORT]
        self.process = subprocess.Popen(words, cwd="/tmp/state", stdout=out, stderr=out)
        self.server = self.process.pid
        open("/tmp/tally.pid", "w").write(str(self.server))
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends:
            if self.process.poll() is not None:
                raise Found("the server does not start")
            try:
                socket.create_connection(("127.0.0.1", int(PORT))).close()
                if self.report():
                    return
            except OSError:
                pass
            time.sleep(0.1)
        raise Found("the pool is not imported")

    def report(self):
        done, said = self.command("status", "--json", POOL)
        pools = json.loads(said) if done else []
        pools = pools if isinstance(pools, list) else pools.get("pools", [pools])
        return next((pool for pool in pools if pool.get("vdevs")), None)

    # ---- what is well ----

    def mirrors(self):
        """The mirrors by name, as legs (path, state)."""
        report = self.report()
        if report is None:
            raise Found("`tally pool status` does not know the pool")
        return {vdev["name"] + vdev["class"]: Mirror(vdev) for vdev in report["vdevs"]}, report

    def is_well(self):
        mirrors, report = self.mirrors()
        waits = [spare["state"] for spare in report["spares"]] == ["AVAIL"]
        return report["state"] == "ONLINE" and waits and all(mirror.is_well() for mirror in mirrors.values())

    def is_whole(self, mirror):
        return mirror.is_well() and not any(self.disks[leg].hurt for leg in mirror.legs)

    def watch(self):
        if os.path.exists(f"{self.ledgers}/failed"):
            raise Found("a client has failed")

    # ---- what befalls ----

    def run(self):
        deeds = {self.hurt: 50, self.change: 25, self.kill: 8, self.scrub: 6, self.scrub_alone: 4, self.lie: 5, self.all_refuse: 4, self.log_ends: 3}
        while time.monotonic() < self.ends:
            (deed,) = self.random.choices(list(deeds), list(deeds.values()))
            deed()
            self.watch()
            self.wait()
        self.make_well()

    def wait(self):
        time.sleep(self.random.uniform(*WHILE))

    def hurt(self):
        """Legs of one or more mirrors are hurt, and a while later made well, each in a way of its own."""
        mirrors, _ = self.mirrors()
        for mirror in self.random.sample(list(mirrors.values()), self.random.randint(1, len(mirrors))):
            if not self.is_whole(mirror):
                continue
            leg = self.disks[self.random.choice(list(mirror.legs))]
            kind = self.random.choice(["dead", "dead", "flaky", "flaky", "refuses-writes", "slow", "hung"])
            self.say(leg.path, kind)
            leg.hurt_by(kind)
            self.counts[f"pulled: {kind}"] += 1
        self.wait()
        if self.random.random() < 0.3:
            self.kill()
        if self.random.random() < 0.2:
            self.command("scrub", POOL)
        # What is hurt may yet be replaced by another disk; a leg that has missed nothing is well as soon as it is healed.
        for disk in list(self.disks.values()):
            if disk.hurt and self.random.random() < 0.8:
                self.say(disk.path, "healed")
                disk.heal()
        self.bring_back()

    def change(self):
        """A leg that is well leaves, or is replaced by a disk that is none."""
        mirrors, _ = self.mirrors()
        mirror = self.random.choice(list(mirrors.values()))
        if not self.is_whole(mirror):
            return self.bring_back()
        leg, beside = self.random.sample(list(mirror.legs), 2)
        way = self.random.choice(["offline", "offline -t", "detach", "replace"])
        if way == "replace":
            if self.replace(mirror, leg):
                self.counts["replaces of a leg that was well"] += 1
        elif way == "detach":
            done, _ = self.command("detach", POOL, leg, kill=True)
            self.counts["detaches"] += done
            self.wait()
        elif not mirror.is_log:
            done, _ = self.command("offline", *way.split()[1:], POOL, leg, kill=True)
            self.counts["offlines"] += done
            self.wait()
        self.bring_back()

    def scrub(self):
        """One that goes beside everything else."""
        done, _ = self.command("scrub", *self.random.choice([(), (), ("-p",), ("-s",)]), POOL)
        self.counts["scrubs begun"] += done

    def scrub_alone(self):
        """One beside which nothing is hurt: it has nothing to repair."""
        self.make_well()
        self.command("scrub", "-s", POOL)
        done, said = self.command("scrub", "-w", POOL)
        scrub = self.mirrors()[1]["scrub"]
        if not done or scrub["state"] != "finished" or scrub["errors"] or scrub["repaired"]:
            raise Found(f"a scrub of a pool that is well: {said} {scrub}")
        self.counts["scrubs that had nothing to repair"] += 1

    def lie(self):
        """A leg forgets what is written to it, or reads wrong, and says nothing. A scrub gives it what it lacks."""
        self.make_well()
        leg = self.disks[self.random.choice([leg for mirror in self.mirrors()[0].values() for leg in mirror.legs])]
        kind = self.random.choice(["forgets", "rots"])
        self.say(leg.path, kind)
        leg.hurt_by(kind)
        self.counts[f"lied: {kind}"] += 1
        # Groups are written every five seconds.
        time.sleep(self.random.uniform(2, 10))
        if self.random.random() < 0.4:
            self.kill()
            self.wait()
        leg.heal()
        self.say(leg.path, "healed")
        self.make_well()
        self.command("scrub", "-s", POOL)
        done, said = self.command("scrub", "-w", POOL)
        scrub = self.mirrors()[1]["scrub"]
        if not done or scrub["state"] != "finished" or scrub["errors"]:
            raise Found(f"a scrub behind a leg that lied: {said} {scrub}")
        self.counts["ranges that scrubs repaired where a leg had lied"] += scrub["repaired"]

    def all_refuse(self):
        """All legs of a mirror of data refuse everything for a while, and the pool is suspended."""
        self.make_well()
        mirrors, _ = self.mirrors()
        mirror = self.random.choice([mirror for mirror in mirrors.values() if not mirror.is_log])
        refused = f"{self.ledgers}/refused"
        open(refused, "w").close()
        self.refuse(mirror, until=lambda: self.mirrors()[1]["state"] == "SUSPENDED")
        if self.random.random() < 0.2:
            self.kill()
        ends = time.monotonic() + PATIENCE
        while self.mirrors()[1]["state"] == "SUSPENDED":
            self.command("clear", POOL)
            if time.monotonic() > ends:
                raise Found("a suspended pool does not go on")
            time.sleep(0.5)
        self.bring_back()
        # Who was refused has been told by now.
        time.sleep(2)
        os.unlink(refused)

    def log_ends(self):
        """All legs of the log refuse everything for a while: changes wait for groups. It is taken back with an import."""
        self.make_well()
        mirrors, _ = self.mirrors()
        log = next(mirror for mirror in mirrors.values() if mirror.is_log)
        self.refuse(log, until=lambda: not any(mirror.is_log and mirror.is_well() for mirror in self.mirrors()[0].values()))
        self.wait()
        self.kill()
        self.bring_back()

    def refuse(self, mirror, until):
        self.say("all of", *mirror.legs, "refuse")
        for leg in mirror.legs:
            self.disks[leg].hurt_by("dead")
        # A group is written every five seconds, and the pool does not notice before.
        ends = time.monotonic() + 15
        while not (noticed := until()) and time.monotonic() < ends:
            time.sleep(0.3)
        self.counts["all legs refused, and the " + ("log ended" if mirror.is_log else "pool was suspended")] += noticed
        self.wait()
        for leg in mirror.legs:
            self.disks[leg].heal()
        self.say("healed")

    # ---- how it is made well ----

    def make_well(self):
        """Everything is healed, taken back and whole."""
        for disk in self.disks.values():
            disk.heal()
        ends = time.monotonic() + PATIENCE
        while not self.is_well():
            self.bring_back(patient=False)
            self.watch()
            if time.monotonic() > ends:
                raise Found(f"not well again after {PATIENCE} s")

    def bring_back(self, patient=True):
        """One step for each leg that is away; `make_well` repeats what has not been enough."""
        mirrors, report = self.mirrors()
        if report["state"] == "SUSPENDED":
            self.command("clear", POOL)
            return
        spares = {spare["name"] for spare in report["spares"]}
        if not spares:
            # The last one has become a leg for good.
            data = next(mirror for mirror in mirrors.values() if not mirror.is_log)
            self.counts["spares added"] += self.command("add", "-f", POOL, "spare", self.fresh(data), kill=True)[0]
        for mirror in mirrors.values():
            self.bring_back_legs_of(mirror, spares)
        if not patient:
            time.sleep(0.5)
            self.command("wait", "-t", "resilver,replace,remove", POOL)

    def bring_back_legs_of(self, mirror, spares):
        good = [leg for leg, state in mirror.legs.items() if state == "ONLINE" and not self.disks[leg].hurt]
        if not good:
            # Only a server's start brings back a log that has ended.
            return self.kill() if mirror.is_log and not any(self.disks[leg].hurt for leg in mirror.legs) else None
        if len(mirror.legs) < 2:
            new = self.fresh(mirror)
            done, _ = self.command("attach", "-f", POOL, good[0], new, kill=True)
            self.counts["attaches"] += done
            return
        if len(good) > 2 and not spares & set(good):
            # Of a replacement that was cut off.
            return self.bring_back_leg(mirror, self.random.choice(good), "detach")
        for leg, state in mirror.legs.items():
            if state in ("ONLINE", "RESILVERING", "JOINING"):
                continue
            ways = ["online", "online", "online", "reopen", "itself", "other", "spare", "detach"]
            if self.disks[leg].hurt:
                ways = ["other", "spare", "detach"]
            if mirror.is_log:
                ways = [way for way in ways if way != "spare"]
            self.bring_back_leg(mirror, leg, self.random.choice(ways))

    def bring_back_leg(self, mirror, leg, way):
        if way == "online":
            done, _ = self.command("online", POOL, leg, kill=True)
            self.counts["returned: online"] += done
        elif way == "reopen":
            done, _ = self.command("reopen", POOL, kill=True)
            self.counts["returned: reopen"] += done
        elif way == "itself":
            done, _ = self.command("replace", "-f", POOL, leg, kill=True)
            self.counts["replaces: by itself"] += done
        elif way == "other":
            self.counts["replaces: by another disk"] += self.replace(mirror, leg)
        elif way == "spare":
            for spare in self.mirrors()[1]["spares"]:
                if spare["state"] == "AVAIL":
                    done, _ = self.command("replace", POOL, leg, spare["name"], kill=True)
                    self.counts["replaces: by the spare"] += done
        elif way == "detach":
            done, _ = self.command("detach", POOL, leg, kill=True)
            self.counts["detaches"] += done

    def replace(self, mirror, leg):
        return self.command("replace", "-f", POOL, leg, self.fresh(mirror), kill=True)[0]

    def fresh(self, mirror):
        """A disk of the size that is no leg and no spare."""
        mirrors, report = self.mirrors()
        used = {leg for mirror in mirrors.values() for leg in mirror.legs} | {spare["name"] for spare in report["spares"]}
        disk = self.random.choice([d for d in self.disks.values() if d.path not in used and d.name.startswith("log") == mirror.is_log])
        disk.heal()
        return disk.path


class Mirror:
    def __init__(self, report):
        self.is_log = report["class"] == "log"
        self.legs = {leg["name"]: leg["state"] for leg in report["children"] or [report]}

    def is_well(self):
        return len(self.legs) == 2 and set(self.legs.values()) == {"ONLINE"}


def is_running(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


driver = Driver(*sys.argv[1:])
found = None
try:
    driver.run()
except Found as what:
    found = what
for what in sorted(driver.counts):
    print(f"# {driver.counts[what]} {what}")
# Last, as only the end of what a check has said is shown.
if found:
    print(driver.command("status", POOL)[1])
    print(f"found: {found}; {sys.argv[3]}/driver tells what came before")
    sys.exit(1)
