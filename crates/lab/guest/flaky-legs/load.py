"""The clients of the suite `flaky-legs`, and its ledger.

    load.py work MOUNT LEDGERS SEED     clients change files in MOUNT until LEDGERS/enough is there
    load.py check MOUNT LEDGERS         everything in the ledgers is in MOUNT, and nothing else
    load.py count LEDGERS               what was done, in one line

A client is a process with a folder and a ledger of its own. The ledger lies outside of the pool. A line is written when
the call has returned that promises what it says, be it fsync() of a file, rename() or unlink(); so a line that the pool
does not agree with is a promise that was broken. The mount is a hard one: whatever befalls the server, a call returns
late, and then as it should have. An error is a broken promise, too, and ends the client. There is one exception: while all
disks of a mirror refuse everything, which LEDGERS/refused says, a call may fail that has to read what is not in memory. Then
nothing is changed by it; an fsync() does not fail.
"""
import errno, hashlib, os, random, sys, time, traceback

CLIENTS = 4
# Each keeps so many files, so that some are old when they are looked at.
FILES_MAX = 160
# Names are used again and again.
NAMES = 400
# Of a file, in bytes: so often of a hundred, up to so many.
SIZES = [(70, 8 << 10), (25, 128 << 10), (5, 1 << 20)]


def main(word, *arguments):
    if word == "work":
        work(*arguments)
    elif word == "check":
        check(*arguments)
    else:
        print(counted(arguments[0]))


def work(mount, ledgers, seed):
    children = []
    for index in range(CLIENTS):
        if (child := os.fork()) == 0:
            try:
                Client(mount, ledgers, int(seed), index).work()
            except BaseException:
                print(f"client {index}: {traceback.format_exc()}", flush=True)
                open(f"{ledgers}/failed", "w").close()
                os._exit(1)
            os._exit(0)
        children.append(child)
    outcomes = [os.waitpid(child, 0)[1] for child in children]
    sys.exit(any(outcomes))


class Refused(Exception):
    """No disk has what the server had to read."""


class Client:
    def __init__(self, mount, ledgers, seed, index):
        self.root, self.ledgers = f"{mount}/client{index}", ledgers
        self.ledger = open(f"{ledgers}/ledger{index}", "w", buffering=1)
        self.random = random.Random(seed * CLIENTS + index)
        # Content by name: pieces (offset, length, seed), later ones over earlier ones, and the sum of them.
        self.files = {}
        self.pieces = 0
        os.mkdir(self.root)

    def work(self):
        deeds = {self.make: 40, self.change: 20, self.rename: 12, self.remove: 6, self.look: 18, self.list: 2, self.rest: 2}
        while not os.path.exists(f"{self.ledgers}/enough"):
            (deed,) = self.random.choices(list(deeds), list(deeds.values()))
            if len(self.files) > FILES_MAX:
                deed = self.remove
            if self.files or deed == self.make:
                self.try_to(deed)

    def try_to(self, deed):
        try:
            deed()
        except Refused:
            self.wrote("refused", deed.__name__)

    def call(self, function, *arguments):
        """One system call, which may be refused only while LEDGERS/refused is there."""
        may_be_refused = self.is_refused()
        try:
            return function(*arguments)
        except OSError as error:
            if error.errno == errno.EIO and (may_be_refused or self.is_refused()):
                raise Refused
            raise

    def is_refused(self):
        return os.path.exists(f"{self.ledgers}/refused")

    def path(self, name):
        return f"{self.root}/{name}"

    def any(self):
        return self.random.choice(list(self.files))

    def piece(self, offset, length):
        self.pieces += 1
        return offset, length, self.random.getrandbits(64)

    def length(self):
        (most,) = self.random.choices([most for _, most in SIZES], [share for share, _ in SIZES])
        return self.random.randint(1, most)

    def make(self):
        name = f"f{self.random.randrange(NAMES)}"
        pieces = [self.piece(0, self.length())]
        if name in self.files:
            flags = os.O_WRONLY | os.O_TRUNC
        else:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        self.write(name, flags, pieces, pieces)

    def change(self):
        name = self.any()
        size = max(offset + length for offset, length, _ in self.files[name][0])
        pieces = [self.piece(self.random.randint(0, size), self.random.randint(1, 16 << 10)) for _ in range(self.random.randint(1, 3))]
        # A file of many pieces is written anew as one.
        if len(self.files[name][0]) > 8:
            return self.look()
        self.write(name, os.O_WRONLY, pieces, self.files[name][0] + pieces)

    def write(self, name, flags, pieces, content):
        file = self.call(os.open, self.path(name), flags, 0o644)
        for offset, length, seed in pieces:
            os.pwrite(file, random.Random(seed).randbytes(length), offset)
        os.fsync(file)
        self.files[name] = content, summed(content)
        self.wrote("fsync", name, *self.files[name][1])
        os.close(file)

    def rename(self):
        old, new = self.any(), f"f{self.random.randrange(NAMES)}"
        if old != new:
            self.call(os.rename, self.path(old), self.path(new))
            self.files[new] = self.files.pop(old)
            self.wrote("rename", old, new)

    def remove(self):
        name = self.any()
        self.call(os.unlink, self.path(name))
        del self.files[name]
        self.wrote("remove", name)

    def look(self):
        name = self.any()
        with self.call(open, self.path(name), "rb") as file:
            # The kernel's copy of it goes, so that the server is asked.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            found = sum_of(self.call(file.read))
        if found != self.files[name][1]:
            raise Exception(f"{self.path(name)} was written as {self.files[name][1]} and is read as {found}")
        self.wrote("look", name)

    def list(self):
        found, known = set(self.call(os.listdir, self.root)), set(self.files)
        if found != known:
            raise Exception(f"{self.root} lacks {sorted(known - found)} and has besides {sorted(found - known)}")
        self.wrote("list", str(len(known)))

    def rest(self):
        time.sleep(self.random.random())

    def wrote(self, *words):
        self.ledger.write(" ".join(map(str, words)) + "\n")


def summed(pieces):
    content = bytearray(max(offset + length for offset, length, _ in pieces))
    for offset, length, seed in pieces:
        content[offset : offset + length] = random.Random(seed).randbytes(length)
    return sum_of(content)


def sum_of(content):
    return len(content), hashlib.sha256(content).hexdigest()[:32]


def check(mount, ledgers):
    expected, lost = {}, []
    for index in range(CLIENTS):
        files = replayed(f"{ledgers}/ledger{index}")
        expected.update({f"client{index}/{name}": summed for name, summed in files.items()})
    found = set()
    for folder, _, names in os.walk(mount):
        found.update(os.path.relpath(f"{folder}/{name}", mount) for name in names)
    for name, summed in sorted(expected.items()):
        try:
            with open(f"{mount}/{name}", "rb") as file:
                if (there := sum_of(file.read())) != summed:
                    lost.append(f"{name} was written as {summed} and is {there}")
        except OSError as error:
            lost.append(f"{name}: {error}")
    lost += [f"{name} was removed or renamed, and is there" for name in sorted(found - set(expected))]
    print("\n".join(lost))
    print(f"{len(expected)} files; lost: {len(lost)}")
    sys.exit(bool(lost) or not expected)


def replayed(ledger):
    files = {}
    for line in open(ledger):
        deed, *words = line.split()
        if deed == "fsync":
            files[words[0]] = int(words[1]), words[2]
        elif deed == "rename":
            files[words[1]] = files.pop(words[0])
        elif deed == "remove":
            del files[words[0]]
    return files


def counted(ledgers):
    counts = {}
    for index in range(CLIENTS):
        for line in open(f"{ledgers}/ledger{index}"):
            deed = line.split(" ", 1)[0]
            counts[deed] = counts.get(deed, 0) + 1
    return ", ".join(f"{counts[deed]} {deed}" for deed in sorted(counts))


main(*sys.argv[1:])
