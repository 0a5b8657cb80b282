# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""No wrong number: skbs that are used again, lost ends, a full table."""
from .harness import test
from .lab import WEB4, WEB6
from .proc import MS, Traffic, expect, expect_that, run, send
from .test_udp import ENQUEUE, SLACK, check_between, enqueue_time
from .tool import Slowpkt, brief, end_time

THRESHOLD = 15 * MS  # of both tracers
DATAGRAMS = 1000


def of_port(port):
    return lambda packet: port in (packet["dport"], packet["sport"])


def index_of(times, at):
    """Which of these calls, in the order of time, was going on at that moment; None: none."""
    near = [max(before - at, at - after, 0) for before, after, *_ in times]
    return near.index(min(near)) if min(near) <= SLACK else None


def stream(slow, socket, address, port, *more):
    """
    A thousand datagrams, sent as fast as can be, to a reader that pauses now and then:
    the same few skbs over and over. Each datagram's truth is known, so each line has to
    be true, and each datagram that was surely slow has to have its line.
    """
    slow.mark()
    socket.mark()
    with Traffic("web", "udp-read", address, port, "-n", DATAGRAMS, "--delay", 30, "--every", 100,
                 "--rcvbuf", 8 << 20) as reader:
        sender = send("client", "udp-send", address, port, "-n", DATAGRAMS, *more)
        reader.done()
        sent = {i: (before, after) for i, before, after in sender.events("sent")}
        reads = {i: rest for i, *rest in reader.events("read")}
    expect("datagrams read", len(reads), DATAGRAMS)
    times = [sent[i] for i in range(DATAGRAMS)]
    by_read = sorted((reads[i][2], reads[i][3], i) for i in reads)
    for view in (slow, socket):
        view.fence()
        lines = view.finals(of_port(port))
        seen = set()
        for packet in lines:
            expect("end", packet["end"], "read")
            at = end_time(packet)
            i = index_of(by_read, at)
            expect_that(f"a read at the time of {brief([packet])}", i is not None, at)
            i = by_read[i][2]
            expect_that("one line for a datagram", i not in seen, brief([packet]))
            seen.add(i)
            before, after = times[i]
            check_between("enqueued", before, enqueue_time(packet), reads[i][1])
            if view is slow:
                check_between("sent", before, packet["mono_ns"], after)
                expect("partial", packet["partial"], False)
        must = {i for i, (_, seen_at, call, _) in reads.items() if call - seen_at >= THRESHOLD + MS}
        expect_that("the reader's pauses", len(must) >= DATAGRAMS / 100 - 1, len(must))
        expect("slow datagrams without a line", must - seen, set())
        fast = {i for i, (_, _, _, back) in reads.items() if back - times[i][0] < THRESHOLD - MS}
        expect("fast datagrams with a line", fast & seen, set())


@test
def lost_ends_do_not_grow(slow):
    """Datagrams into a dummy device: fast, their ends unseen, their skbs used again at once."""
    run("modprobe", "dummy", "numdummies=0")
    run("ip", "link", "add", "dummy1", "type", "dummy")
    try:
        run("ip", "addr", "add", "10.98.0.1/24", "dev", "dummy1")
        run("ip", "link", "set", "dummy1", "up")
        run("ip", "neigh", "add", "10.98.0.2", "dev", "dummy1", "lladdr", "02:00:00:00:00:09", "nud", "permanent")
        sender = send(None, "udp-send", "10.98.0.2", 5620, "-n", 300, "--gap", 10)
        longest = max(after - before for _, before, after in sender.events("sent"))
        slow.fence()
        lines = slow.packets(of_port(5620))
        expect_that(f"no line is longer than the longest send call ({longest / MS:.1f} ms)",
                    all(p["total_ns"] <= longest for p in lines), brief(lines))
    finally:
        run("ip", "link", "del", "dummy1")


@test
def skbs_used_again(slow, socket):
    stream(slow, socket, WEB4, 5600)


@test
def skbs_used_again_without_ip_id(slow, socket):
    stream(slow, socket, WEB4, 5601, "--df")
    stream(slow, socket, WEB6, 5606)


HELD = 400


@test
def full_table():
    """
    400 datagrams wait at once, and the table has room for 64. Who must go is counted,
    and printed if it was slow already; each line is true.
    """
    port = 5630
    with Traffic("web", "udp-read", WEB4, port, "-n", HELD, "--rcvbuf", 8 << 20, "--wait") as reader, \
            Slowpkt("-j", "-u", "-l", "socket=30ms", "-d", port, "--table", 64) as tool:
        sender = send("client", "udp-send", WEB4, port, "-n", HELD)
        # some sweep finds those that are in the table
        tool.await_packets(1, lambda p: p["end"] == "waiting", seconds=10)
        reader.go()
        reader.done()
        reads = {i: rest for i, *rest in reader.events("read")}
        tool.await_packets(1, lambda p: p["end"] == "read")
        tool.stop()
    expect("datagrams read", len(reads), HELD)
    times = [(before, after) for _, before, after in sender.events("sent")]
    counts = tool.counts
    expect("matched", counts["matched"], HELD)
    expect_that("at least those that had no room were evicted", counts["evicted"] >= HELD - 64, counts)
    expect("lost", counts["lost"], 0)
    finals = [p for p in tool.packets() if p["end"] != "waiting"]
    waiting = [p for p in tool.packets() if p["end"] == "waiting"]
    expect_that("a number ends once", len({p["pkt"] for p in finals}) == len(finals), brief(finals))
    expect_that("64 are waiting or read at the most",
                0 < len(waiting) <= 64 and 0 < len([p for p in finals if p["end"] == "read"]) <= 64,
                (len(waiting), len(finals)))
    first_call = min(rest[2] for rest in reads.values())
    for packet in tool.packets():
        i = index_of(times, packet["mono_ns"])
        expect_that(f"a datagram that was sent when {brief([packet])} was enqueued", i is not None,
                    packet["mono_ns"])
        expect("hops", packet["hops"][0]["func"], ENQUEUE)
        expect_that("30 ms at least", packet["total_ns"] >= 30 * MS, brief([packet]))
        if packet["end"] == "read":
            check_between("read", reads[i][2], end_time(packet), reads[i][3])
        else:
            expect_that("end", packet["end"] in ("evicted", "waiting"), brief([packet]))
            expect_that("it was still waiting then", end_time(packet) <= first_call, brief([packet]))
