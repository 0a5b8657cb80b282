# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""slowpkt itself: started until its ready line, ended with its counts; its JSON checked."""
import contextlib
import json
import os
import re
import shutil
import signal
import tempfile

from .proc import TOP, Failure, Process, expect, expect_that

# A copy, so that a build on the host meanwhile changes nothing, and that any user may run it.
SLOWPKT = os.path.join(tempfile.mkdtemp(prefix="e2e-", dir="/tmp"), "slowpkt")
os.chmod(os.path.dirname(SLOWPKT), 0o755)
shutil.copy(os.environ.get("SLOWPKT", os.path.join(TOP, "build/slowpkt")), SLOWPKT)
os.chmod(SLOWPKT, 0o755)

PATIENCE = 120  # seconds for loading all programs, which emulation makes slow

FIELDS = """pkt time mono_ns dir proto src sport dst dport seq seq_end ack flags win len id segs
retrans partial truncated total_ns end drop_reason drop_at slowest nat reader queue wait hops""".split()
ALWAYS = set("""pkt time mono_ns dir proto src sport dst dport len partial truncated total_ns end
hops""".split())
HOP_FIELDS = set("func stage at_ns netns dev cpu pid comm ctx".split())
ENDS = {"delivered", "read", "sent", "dropped", "waiting", "unread", "evicted", "unknown"}
DIRS = {"rcv", "snd", "loc", "fwd", "unknown"}


def check_fields(packet):
    """Names and order of design §6; new names may stand anywhere."""
    known = [name for name in packet if name in FIELDS]
    expect("order of the JSON fields", known, [name for name in FIELDS if name in packet])
    missing = ALWAYS - set(packet)
    expect("JSON fields that are missing", missing, set())
    for name in "seq seq_end ack flags win".split():
        expect(f"'{name}' is there for TCP only", name in packet, packet["proto"] == "tcp")
    for hop in packet["hops"]:
        expect(f"fields missing in hop {hop}",
               {"func", "stage", "at_ns", "cpu", "ctx"} - set(hop), set())
        expect_that("a hop's ctx", hop["ctx"] in ("owner", "interrupted"), hop)


def check_times(packet):
    """What holds of each packet, whatever befell it."""
    hops, total = packet["hops"], packet["total_ns"]
    times = [hop["at_ns"] for hop in hops]
    expect_that("hops in the order of time, the first at 0",
                times and times[0] == 0 and times == sorted(times), times)
    expect_that("the total is not less than the last hop", total >= times[-1], (total, times[-1]))
    expect("the first hop's stage", hops[0]["stage"], None)
    expect_that("every later hop ends a stage", all(hop["stage"] for hop in hops[1:]), hops)
    expect_that("'end' and 'dir'", packet["end"] in ENDS and packet["dir"] in DIRS, packet)
    waits = [b - a for a, b in zip(times, times[1:])]
    if packet["end"] in ("delivered", "read", "sent", "dropped"):
        expect("the total is the last hop's time", total, times[-1])
    else:
        waits.append(total - times[-1])
    if len(hops) > 1:
        expect("the slowest stage's time", packet["slowest"]["ns"], max(waits))
        if "to" in packet["slowest"]:
            i = waits.index(max(waits))
            expect("the slowest stage", [packet["slowest"][k] for k in ("stage", "from", "to")],
                   [hops[i + 1]["stage"], hops[i]["func"], hops[i + 1]["func"]])


def parse(line):
    try:
        packet = json.loads(line)
    except ValueError:
        raise Failure(f"not JSON: {line!r}") from None
    try:
        check_fields(packet)
        check_times(packet)
    except Failure as failure:
        raise Failure(f"{failure}, in {line}") from None
    return packet


class Slowpkt(Process):
    """
    A running slowpkt. begin() starts it, await_ready() waits until it traces,
    stop() ends it and leaves its counts; as a context all of this. under: a command
    that starts it in other surroundings, by exec.
    """

    def __init__(self, *args, under=()):
        self.args = list(map(str, args))
        super().__init__([*under, SLOWPKT, *self.args])
        self.status = None
        self._parsed = []

    def __enter__(self):
        return self.await_ready()

    def __exit__(self, kind, *exc):
        if kind:
            self.kill()
        else:
            self.stop()

    def await_ready(self):
        try:
            self.ready = self.err.wait_line("slowpkt: tracing", PATIENCE)
        except Failure as failure:
            self.kill()
            raise Failure(f"slowpkt {' '.join(self.args)}: {failure}") from None
        return self

    def stop(self, number=signal.SIGINT):
        """Ends it and checks that it ends well."""
        if self.status is None:
            if self.popen.poll() is None:
                self.signal(number)
            self.status = self.wait(PATIENCE)
            expect(f"exit status of slowpkt {' '.join(self.args)} {self.err.all[-1:]}", self.status, 0)
            self.counts = self.count_lines()[-1]
        return self

    def count_lines(self):
        lines = [line for line in self.err.all if line.startswith("slowpkt: hits=")]
        return [{key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", line)} for line in lines]

    def ask_counts(self):
        """The counts now, by SIGUSR1; with -v also hits, {target: (shown, how, n)}."""
        before = len(self.count_lines())
        self.signal(signal.SIGUSR1)
        self.err.wait("counts after SIGUSR1", lambda _: len(self.count_lines()) > before)
        return self.count_lines()[-1]

    def ask_hits(self):
        """The hits now: {target: (shown, how, n)}; for one with -v."""
        start = len(self.err.all)
        self.ask_counts()
        self.ask_counts()  # what stands between both count lines is complete
        found = {}
        for line in self.err.all[start:]:
            match = re.fullmatch(r"slowpkt: hits at (\S+) \((\S+), ([^)]+)\): (\d+)", line)
            if match:
                found.setdefault(match[2], (match[1], match[3], int(match[4])))
        return found

    def packets(self):
        """All packets printed so far; for one with -j."""
        for line in self.out.all[len(self._parsed):]:
            self._parsed.append(parse(line))
        return self._parsed

    def finals(self):
        """Without those that were found waiting; they come again with their end."""
        return [p for p in self.packets() if p["end"] != "waiting"]

    def await_packets(self, count, where=lambda p: True, start=0, seconds=20):
        """Waits until so many packets are printed; returns all of them that there are."""
        def find():
            return [p for p in self.packets()[start:] if where(p)]
        try:
            self.out.wait(f"{count} packets", lambda _: len(find()) >= count, seconds)
        except Failure:
            found = find()
            raise Failure(f"slowpkt {' '.join(self.args)}: expected {count} packets within "
                          f"{seconds} s, saw {len(found)}: {brief(found)}; all are "
                          f"{brief(self.packets()[start:])}") from None
        return find()


def end_time(packet):
    return packet["mono_ns"] + packet["total_ns"]


def brief(packets, limit=12):
    """Packets for a message."""
    words = [f"[{p['proto']} {p['src']}:{p['sport']}>{p['dst']}:{p['dport']} {p.get('flags', '')}"
             f" {p['total_ns'] / 1e6:.1f}ms {p['end']} {p['dir']}{' partial' if p['partial'] else ''}"
             f" {p.get('slowest', {}).get('stage')} {len(p['hops'])} hops]" for p in packets[:limit]]
    return " ".join(words) + (f" and {len(packets) - limit} more" if len(packets) > limit else "")


@contextlib.contextmanager
def tracing(*commands):
    """Several at once: they load side by side. Each command is a list of arguments."""
    tools = []
    try:
        for command in commands:
            tools.append(Slowpkt(*command))
        for tool in tools:
            tool.await_ready()
        yield tools
        for tool in tools:
            if tool.status is None and tool.popen.poll() is None:
                tool.signal(signal.SIGINT)
        for tool in tools:
            tool.stop()
    finally:
        for tool in tools:
            tool.kill()
