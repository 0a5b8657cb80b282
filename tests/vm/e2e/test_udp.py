# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
The first article (udplatency): how long a datagram waits for its reader.

Each test is seen by two tracers: `slow` follows the whole journey, `socket` has the
few hooks only that -u -l socket=TIME needs.
"""
import time

from .harness import Missed, Noisy, quietly, test
from .lab import WEB4, WEB6, inum, netem
from .proc import MS, Failure, Traffic, expect, expect_that, send, wait_for
from .tool import Slowpkt, brief, end_time

# bpf_ktime_get_ns() and clock_gettime() are one clock, read in two ways.
SLACK = MS // 10
NEAR = 5 * MS
DELAY = 100

ENQUEUE, READ = "udp_unicast_rcv_skb", "__skb_recv_udp"


def enqueue_time(packet):
    hops = [hop for hop in packet["hops"] if hop["func"] == ENQUEUE]
    expect(f"hops at {ENQUEUE}", len(hops), 1)
    return packet["mono_ns"] + hops[0]["at_ns"]


def check_between(what, low, time, high):
    if not low - SLACK <= time <= high + SLACK:
        raise Failure(f"{what}: expected {low / MS:.3f}..{high / MS:.3f} ms, saw {time / MS:.3f} ms")


def check_read(packet, sent, read, reader, whole):
    """
    One datagram against the truth: sent between `before` and `after`, there to be
    read when poll said so (`seen`), read between `call` and `back`.
    """
    _, before, after = sent
    _, length, seen, call, back = read
    expect("end", packet["end"], "read")
    expect("len", packet["len"], length)
    expect("slowest stage", packet["slowest"]["stage"], "socket")
    expect("its hops", [packet["slowest"]["from"], packet["slowest"]["to"]], [ENQUEUE, READ])
    expect("reader", packet["reader"],
           {"pid": reader.pid, "tid": reader.tid, "comm": "slowread"})
    expect("the read hop's task", [packet["hops"][-1][k] for k in ("func", "ctx", "comm")],
           [READ, "owner", "slowread"])
    check_between("enqueued", before, enqueue_time(packet), seen or back)
    check_between("read", call, end_time(packet), back)
    expect("partial", packet["partial"], not whole)
    if whole:
        check_between("sent", before, packet["mono_ns"], after)
        expect("dir", packet["dir"], "loc")
    wait = packet["slowest"]["ns"]
    if seen:
        check_between("the wait in the socket", call - seen, wait, back - before)


def check_noise(sent, reads):
    """Of one of these datagrams at least the truth must tell the wait within 5 ms, or it was all noise."""
    around = [(back - before) - (call - seen) for (_, before, _), (_, _, seen, call, back) in zip(sent, reads) if seen]
    if around and min(around) > NEAR:
        raise Noisy(f"the way to the socket and the read took {min(around) / MS:.1f} ms")


def of_port(port, count=1):
    return lambda packet: packet["proto"] == "udp" and port <= packet["dport"] < port + count


def read_slowly(views, address, port, *more):
    """Three datagrams, each sent when the one before is read."""
    for view in views:
        view.mark()
    with Traffic("web", "udp-read", address, port, "-n", 3, "--delay", DELAY,
                 "--name", "slowread", *more) as reader:
        sent = []
        for i in range(3):
            sent += send("client", "udp-send", address, port).events("sent")
            reader.await_events("read", i + 1)
        reads = reader.events("read")
        for view, whole in zip(views, (True, False)):
            packets = view.exactly(3, of_port(port))
            for packet, one_sent, one_read in zip(packets, sent, reads):
                check_read(packet, one_sent, one_read, reader, whole)
                if not whole:
                    expect("hops", [hop["func"] for hop in packet["hops"]], [ENQUEUE, READ])
        check_noise(sent, reads)
        return views[0].finals(of_port(port))


@test
def slow_reader(slow, socket):
    packets = quietly(lambda: read_slowly((slow, socket), WEB4, 5400))
    expect("addresses", (packets[0]["src"], packets[0]["dst"]), ("10.0.1.2", WEB4))


@test
def slow_reader_ipv6(slow, socket):
    packets = quietly(lambda: read_slowly((slow, socket), WEB6, 5406))
    expect("addresses", (packets[0]["src"], packets[0]["dst"]), ("fd00:1::2", WEB6))


@test
def peek_is_not_a_read(slow, socket):
    # peeks of no byte and of all, at once; the datagram is taken 100 ms later
    quietly(lambda: read_slowly((slow, socket), WEB4, 5410, "--peek"))
    quietly(lambda: read_slowly((slow, socket), WEB6, 5416, "--peek"))


def read_dont_fragment(views):
    for view in views:
        view.mark()
    with Traffic("web", "udp-read", WEB4, 5420, "-n", 5, "--delay", DELAY, "--name", "slowread") as reader:
        sent = []
        for i in range(5):
            sent += send("client", "udp-send", WEB4, 5420, "--df").events("sent")
            reader.await_events("read", i + 1)
        reads = reader.events("read")
        for view, whole in zip(views, (True, False)):
            packets = view.exactly(5, of_port(5420))
            expect("the datagrams' ids", {packet.get("id", 0) for packet in packets}, {0})
            for packet, one_sent, one_read in zip(packets, sent, reads):
                check_read(packet, one_sent, one_read, reader, whole)
        check_noise(sent, reads)


@test
def dont_fragment_has_id_0(slow, socket):
    quietly(lambda: read_dont_fragment((slow, socket)))


def read_multicast(views, group, port, source):
    """Two readers of one group; one of them is slow, and only it is printed."""
    for view in views:
        view.mark()
    common = ["udp-read", group, port, "-n", 1, "--dev", "eth0"]
    with Traffic("web", *common, "--delay", DELAY, "--name", "slowread") as slow_reader, \
            Traffic("web", *common, "--name", "fastread") as fast_reader:
        sent = send(None, "udp-send", group, port, "--dev", "docker0").events("sent")[0]
        fast = fast_reader.await_events("read", 1)[0]
        read = slow_reader.await_events("read", 1)[0]
        if fast[4] - sent[1] > 15 * MS:
            raise Noisy(f"the fast reader took {(fast[4] - sent[1]) / MS:.1f} ms")
        for view, whole in zip(views, (True, False)):
            packet, = view.exactly(1, of_port(port))
            expect("addresses", (packet["src"], packet["dst"]), (source, group))
            # the slow reader's may be the skb that came or a clone of it, which begins at its socket
            if whole and packet["partial"]:
                expect("hops of a clone", [h["func"] for h in packet["hops"]][-2:], [ENQUEUE, READ])
                whole = False
            check_read(packet, sent, read, slow_reader, whole)
        check_noise([sent], [read])


@test
def multicast_with_two_readers(slow, socket):
    quietly(lambda: read_multicast((slow, socket), "239.1.2.3", 5430, "172.17.0.1"))


@test
def multicast_with_two_readers_ipv6(slow, socket):
    quietly(lambda: read_multicast((slow, socket), "ff15::123", 5436, "fd00:17::1"))


TRAIN = 50


def read_train(views, address, port):
    """One send call of 50 datagrams; they are read 100 ms later, one after the other."""
    for view in views:
        view.mark()
    with Traffic("web", "udp-read", address, port, "-n", TRAIN, "--delay", DELAY, "--every", TRAIN,
                 "--rcvbuf", 1 << 20, "--name", "slowread") as reader:
        sent, = send("client", "udp-send", address, port, "-n", TRAIN, "--gso", 200).events("sent")
        reads = reader.await_events("read", TRAIN)
    reads.sort(key=lambda read: read[3])
    expect("the datagrams' order", [read[0] for read in reads], list(range(TRAIN)))
    # the first was there when poll said so, the others when the first was read at the latest
    seen, first_call = reads[0][2], reads[0][3]
    if first_call - seen - DELAY * MS > NEAR or seen - sent[1] > 50 * MS:
        raise Noisy(f"{(seen - sent[1]) / MS:.1f} ms to the socket, "
                    f"{(first_call - seen) / MS:.1f} ms to the first read")
    for view, whole in zip(views, (True, False)):
        packets = sorted(view.exactly(TRAIN, of_port(port)), key=end_time)
        for packet, read in zip(packets, reads):
            check_read(packet, sent, (*read[:2], first_call, *read[3:]), reader,
                       whole and not packet["partial"])
            expect("segs", packet["segs"], 1)
        check_between("the first one's wait in the socket", first_call - seen, packets[0]["slowest"]["ns"],
                      reads[0][4] - sent[1])
        # the way of the train goes on with its first datagram
        expect("datagrams with the whole way", [i for i, p in enumerate(packets) if not p["partial"]],
               [0] if whole else [])
        if "id" in packets[0]:
            expect("ids", [p["id"] for p in packets], [packets[0]["id"] + i & 0xffff for i in range(TRAIN)])


@test
def gso_train_of_50(slow, socket):
    quietly(lambda: read_train((slow, socket), WEB4, 5440))


@test
def gso_train_of_50_ipv6(slow, socket):
    quietly(lambda: read_train((slow, socket), WEB6, 5446))


BLOCKED = 10


def blocked(slow):
    port = 5450
    where = of_port(port, BLOCKED)
    slow.mark()
    with Traffic("web", "udp-read", WEB4, port, "--block", "--threads", BLOCKED, "--name", "slowread") as readers, \
            Slowpkt("-j", "-u", "-l", "socket=0", "-d", f"{port}-{port + BLOCKED - 1}") as late:
        with netem("client", "cli0", "delay", "60ms"):
            sender = send("client", "udp-send", WEB4, port, "-n", BLOCKED, "--ports", BLOCKED)
            readers.await_events("read", BLOCKED)
        reads = {read[0]: read for read in readers.events("read")}
        wait_for("each datagram printed, or its read missed",
                 lambda: len(late.finals()) + late.ask_counts()["missed"] >= BLOCKED)
        slow.fence()
        if late.ask_counts()["missed"]:
            time.sleep(2)  # until a sweep has looked
        late.stop()
        # nothing waits any longer than until its read, missed or not
        for packet in late.packets() + slow.packets(where):
            expect_that("it had not been read yet", end_time(packet) <= reads[packet["dport"] - port][4] + SLACK,
                        brief([packet]))
        if len(late.finals()) < BLOCKED or len(slow.finals(where)) < BLOCKED:
            raise Missed(f"{len(late.finals())} and {len(slow.finals(where))} of {BLOCKED} reads, {late.counts}")
        for packets in (late.finals(), slow.finals(where)):
            expect("lines", len(packets), BLOCKED)
            expect("threads that read", len({p["reader"]["tid"] for p in packets}), BLOCKED)
            for packet in packets:
                i = packet["dport"] - port
                expect("end", packet["end"], "read")
                expect("reader", [packet["reader"][k] for k in ("pid", "comm")], [readers.pid, "slowread"])
                check_between("read", sender.events("sent")[i][1], end_time(packet), reads[i][4])
        for packet in slow.finals(where):
            _, before, after = sender.events("sent")[packet["dport"] - port]
            check_between("sent", before, packet["mono_ns"], after)
            if packet["slowest"]["stage"] != "qdisc":
                raise Noisy(brief([packet]))
            expect("where it was slowest", [packet["slowest"][k] for k in ("dev", "netns")],
                   ["cli0", inum("client")])
            expect_that("the qdisc's 60 ms", packet["slowest"]["ns"] >= 60 * MS, packet["slowest"])


@test
def readers_blocked_before_the_tracer_came(slow):
    """Nothing waits in a socket here; with -l socket=0 each read is printed."""
    quietly(lambda: blocked(slow))
