# SPDX-License-Identifier: Apache-2.0
"""pawl against the device and against memcpy, in one process that holds the state."""

import functools
import statistics

import harness
import states

BUDGET_BYTES = 256 * harness.MIB  # the library's default
STALL_BAR_S = 2e-3
CALL_BAR_S = 5e-3
TRIES = 2  # of each of fio's ways, before the best two are chosen
ROUNDS = ((256 * harness.MIB, 11), (2 * harness.GIB, 9), (5 * harness.GIB, 7))  # (up to, rounds)


def label(size):
    if size >= harness.GIB:
        return f"{size / harness.GIB:.3g} GiB"
    return f"{size / harness.MIB:.3g} MiB"


def usual_rounds(size):
    return next((count for limit, count in ROUNDS if size <= limit), 3)


def choose_ways(bench):
    """All ways of fio in short; the best two are then measured in turn with pawl."""
    size = min(harness.GIB, max(bench.options.sizes))
    bench.say("fio: which ways are best")
    tries = min(TRIES, bench.rounds(TRIES))
    tried, failed = bench.fio.choose(size, tries, bench.options.pause)
    for words in failed:
        bench.report.remark(f"fio, left out: {words}")
    rows = [[str(way), f"{what} {speed:.2f} GB/s",
             "one of the best two" if way in bench.fio.ways[what] else ""]
            for what, way, speed in sorted(tried, key=lambda t: (t[0], t[2]), reverse=True)]
    bench.report.table(f"the device, by fio, {label(size)}: medians of {tries}", ["", "speed", ""], rows)


class DeviceRounds:
    """Saves, restores, fio and memcpy in turn. Two runs in one process: one with default options,
    whose fence comes after the save, and one whose budget holds the state, with the fence at once."""

    def __init__(self, bench, worker, tensors):
        self.bench = bench
        self.worker = worker
        self.size = states.bytes_of(tensors)
        self.directory = bench.data / "runs"
        self.directory.mkdir()
        self.found = {}
        self.step = 0
        # A copy of the state beside the state, and room for the page cache.
        self.fits = 2.2 * self.size + 2 * harness.GIB < harness.available_bytes()
        self.saves = {"save": self._save,
                      "threads": lambda: self._save_elsewhere("threads", "late", 0, "threads")}
        self.restores = {"cold": self._cold, "warm": self._warm, "memcpy": self._memcpy}
        if bench.fio is not None:
            self.saves |= {way: functools.partial(self._fio_write, way)
                           for way in bench.fio.ways["write"]}
            self.restores |= {way: functools.partial(self._fio_read, way)
                              for way in bench.fio.ways["read"]}
        if self.fits:
            budget = int(self.size * 1.05 / harness.MIB) + 64
            self.saves["save, fence at once"] = lambda: self._save_elsewhere(
                "now", "now", budget, "auto")

    def note(self, what, value):
        self.found.setdefault(what, []).append(value)

    def _fio_write(self, way):
        self.note(("write", way), self.bench.fio.write_s(self.size, way))

    def _save(self):
        answer = self.worker.ask("save", self.step, "late")
        self.note("durable", answer["durable_s"])
        self.note("stall", answer["stall_s"])
        self.note("stats", answer)

    def _save_elsewhere(self, name, fence, budget_mib, io):
        """In a run of its own, without its first save, which also pays for new memory."""
        run = self.directory / name
        if self.step == 1:
            self.worker.ask("open", run, budget_mib, io)
            first = self.worker.ask("save", 0, fence)
            self.note(name + ", first save", first["stall_s"])
            self.worker.ask("remove", 0)
            self.bench.settle()
        else:
            self.worker.ask("select", run)
        answer = self.worker.ask("save", self.step, fence)
        self.note(name + " durable", answer["durable_s"])
        self.note(name + " stall", answer["stall_s"])
        self.worker.ask("remove", self.step)
        self.worker.ask("select", self.directory / "late")

    def _largest_file(self):
        return max(harness.files_below(self.directory / "late"), key=lambda p: p.stat().st_size)

    def _fio_read(self, way):
        path = self._largest_file()
        harness.make_cold(self.directory)
        seconds = self.bench.fio.read_s(path, way)
        self.note(("read", way), seconds * self.size / path.stat().st_size)

    def _restore(self):
        first = self.step == 1
        if first:
            self.worker.ask("scramble")
        answer = self.worker.ask("restore", self.directory / "late")
        if first and not self.worker.ask("same")["same"]:
            raise harness.Failed("pawl restored something else than it saved")
        return answer

    def _cold(self):
        harness.make_cold(self.directory)
        self.note("cold", self._restore()["seconds"])

    def _warm(self):
        if not harness.make_warm(self.directory / "late"):
            self.bench.report.remark("a warm restore found part of its files gone from the page cache")
        answer = self._restore()
        self.note("warm", answer["seconds"])
        self.note("warm processor", answer["processor_s"])

    def _memcpy(self):
        self.note("memcpy", self.worker.ask("memcpy")["seconds"])

    def run(self, title, count):
        self.worker.ask("open", self.directory / "late", 0, "auto")
        for i, order in harness.rounds(count, self.saves):
            self.bench.say(f"{title}, round {i + 1} of {count}")
            self.step = i + 1
            for name in order:
                self.bench.settle()
                self.saves[name]()
            for name in harness.shuffled(self.restores, i):
                self.bench.settle()
                self.restores[name]()
            self.worker.ask("remove", self.step)
        return self.found

    def device(self, what):
        """The seconds of the device in each round, by the better of its two ways; and the way that
        was better more often."""
        if self.bench.fio is None:
            return [], ""
        ways = self.bench.fio.ways[what]
        turns = list(zip(*(self.found[what, way] for way in ways)))
        won = [ways[turn.index(min(turn))] for turn in turns]
        return [min(turn) for turn in turns], str(statistics.mode(won))


def ratios(over, under):
    return [a / b for a, b in zip(over or [], under or [])]


def speed(size, seconds):
    return f"{size / statistics.median(seconds) / 1e9:.2f} GB/s" if seconds else ""


def milliseconds(seconds):
    return f"{statistics.median(seconds) * 1e3:.2f} ms" if seconds else ""


def add_device_figures(bench, title, rounds, barred):
    size, get = rounds.size, rounds.found.get
    add = bench.report.figure
    for what, direction, key, floor in (("durable save", "write", "durable", 0.9),
                                        ("durable save by threads", "write", "threads durable", None),
                                        ("cold verified restore", "read", "cold", 0.75)):
        device, way = rounds.device(direction)
        add(f"{what} ÷ device, {title}", ratios(device, get(key)),
            floor if barred else None,
            f"{speed(size, get(key))} of {speed(size, device)}: {way}")
    add(f"warm verified restore ÷ memcpy, {title}", ratios(get("memcpy"), get("warm")), 0.8,
        f"{speed(size, get('warm'))} of {speed(size, get('memcpy'))}; "
        f"{milliseconds(get('warm processor'))} of processor time")
    add(f"2 ms ÷ stall, fence after the write, {title}",
        [STALL_BAR_S / stall for stall in get("stall", [])], 1.0, milliseconds(get("stall")))
    add(f"memcpy ÷ stall, fence at once, {title}", ratios(get("memcpy"), get("now stall")), 1 / 1.1,
        f"{milliseconds(get('now stall'))} of {milliseconds(get('memcpy'))}; the first save "
        f"{milliseconds(get('now, first save'))}")


def measure_device(bench, title, tensors, barred):
    size = states.bytes_of(tensors)
    listed = bench.listed("device", tensors)
    with bench.start() as worker:
        worker.ask("state", listed, 1)
        rounds = DeviceRounds(bench, worker, tensors)
        try:
            rounds.run(title, bench.rounds(usual_rounds(size)))
        finally:
            harness.empty(rounds.directory)
            rounds.directory.rmdir()
    if not rounds.fits:
        bench.report.remark(f"{title}: no fence at once, memory does not hold the state twice")
    add_device_figures(bench, title, rounds, barred)


def measure_shapes(bench):
    size = min(harness.GIB, max(bench.options.sizes))
    measure_device(bench, f"GPT-2 with Adam, {label(size)}", states.gpt2(size), False)
    measure_device(bench, f"Llama with Adam, {label(size)}", states.llama(size), False)
    measure_device(bench, "100,000 × 4 KiB", states.many(100000, 4096), False)


# ---- many small tensors, and one small state ------------------------------------------------------

def _timed_save(bench, worker, step, fence="late"):
    bench.settle()
    answer = worker.ask("save", step, fence)
    worker.ask("remove", step)
    return answer


def measure_small(bench):
    tensors = states.many(100000, 4096)
    lists = {"many": bench.listed("many", tensors),
             "one": bench.listed("one", states.one(states.bytes_of(tensors)))}
    found = {name: [] for name in lists}
    called = []
    directory = bench.data / "small"
    directory.mkdir()
    with bench.start() as many, bench.start() as one:
        workers = {"many": many, "one": one}
        for name, worker in workers.items():
            worker.ask("state", lists[name], 1)
            worker.ask("open", directory / name, 0, "auto")
            _timed_save(bench, worker, 0)
        for i, names in harness.rounds(bench.rounds(9), workers):
            bench.say(f"100,000 tensors against one, round {i + 1}")
            for name in names:
                answer = _timed_save(bench, workers[name], i + 1)
                found[name].append(answer["durable_s"])
                if name == "many":
                    called.append(answer["save_s"])
    harness.empty(directory)
    bench.report.figure("durable save, 100,000 × 4 KiB ÷ one tensor", ratios(found["one"], found["many"]),
                        0.8, f"{milliseconds(found['many'])} against {milliseconds(found['one'])}")
    bench.report.figure("5 ms ÷ pawl_save, 100,000 unchanged entries",
                        [CALL_BAR_S / seconds for seconds in called], 1.0, milliseconds(called))


def measure_syncs(bench):
    """A state of 1 MiB against the bare files and syncs of its save, and against those of an empty
    one. Each beside the save, for a disk's flushes are not the same a minute later."""
    directory = bench.data / "syncs"
    directory.mkdir()
    payloads = {"bare": harness.MIB, "empty": 0}
    for name in payloads:
        (directory / name).mkdir()
    found = {"save": [], "bare": [], "empty": []}
    with bench.start() as worker:
        worker.ask("state", bench.listed("small", states.one(harness.MIB)), 1)
        worker.ask("open", directory / "run", 0, "auto")
        _timed_save(bench, worker, 1000)  # the first of a run also looks for what others left
        for i, names in harness.rounds(bench.rounds(41), found):
            for name in names:
                harness.settle(min(0.1, bench.options.pause))
                if name in payloads:
                    answer = worker.ask("syncs", directory / name, i, payloads[name])
                    found[name].append(answer["seconds"])
                else:
                    found[name].append(worker.ask("save", i, "late")["durable_s"])
                    if i > 0:
                        worker.ask("remove", i - 1)
    harness.empty(directory)
    for what, name, floor in (("files and syncs", "bare", 1 / 1.5),
                              ("syncs without payload", "empty", None)):
        bench.report.figure(f"the protocol's {what} ÷ durable save, 1 MiB",
                            ratios(found[name], found["save"]), floor,
                            f"{milliseconds(found[name])} of {milliseconds(found['save'])}")


def _first_fences(bench, listed, size, command):
    """Of a fresh process, the stall of its first save with the fence at once, and of its second."""
    directory = bench.data / "first"
    directory.mkdir()
    budget = int(size * 1.05 / harness.MIB) + 64
    with bench.start() as worker:
        worker.ask("state", listed, 1)
        worker.ask(command, directory / "run", budget, "auto")
        worker.rest()  # as while a job loads its data
        stalls = [_timed_save(bench, worker, step, "now")["stall_s"] for step in range(2)]
    harness.empty(directory)
    directory.rmdir()
    return stalls


def measure_first_fence(bench):
    """New memory costs more than the copy: how much of that does the first fence of a process see?"""
    size = min(harness.GIB, max(bench.options.sizes))
    listed = bench.listed("first", states.one(size))
    found = {"ready": [], "open": []}
    for i, commands in harness.rounds(bench.rounds(5), found):
        bench.say(f"the first fence of a process, round {i + 1}")
        for command in commands:
            found[command].append(_first_fences(bench, listed, size, command))
    for command, what, floor in (("ready", "budget ready", 0.7), ("open", "default", None)):
        first, later = zip(*found[command])
        bench.report.figure(f"later stall ÷ first, fence at once, {what}, {label(size)}",
                            ratios(later, first), floor,
                            f"first {milliseconds(first)}, later {milliseconds(later)}")


def measure_memory(bench, size):
    """The first save of a fresh process, with either fence and the default budget."""
    directory = bench.data / "memory"
    directory.mkdir()
    listed = bench.listed("memory", states.one(size))
    extra = []
    for fence in ("late", "now"):
        bench.say(f"memory, {label(size)}, fence {fence}")
        with bench.start() as worker:
            worker.ask("state", listed, 1)
            worker.ask("open", directory / fence, 0, "auto")
            extra.append(worker.ask("save", 1, fence)["extra_bytes"])
        harness.empty(directory)
    directory.rmdir()
    bench.report.figure(
        f"(budget + 16 MiB) ÷ extra memory, {label(size)}",
        [(BUDGET_BYTES + 16 * harness.MIB) / max(extra)], 1.0,
        "fence after the write {:.0f} MiB, at once {:.0f} MiB".format(
            *(n / harness.MIB for n in extra)))
