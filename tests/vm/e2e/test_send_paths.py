# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
The ways out of a socket. A known time is spent in one place; exactly that stage shows
it, and all others stay below 15 ms.
"""
import contextlib
import itertools
import socket
import struct
import time

from .harness import Missed, Noisy, quietly, test
from .lab import CLIENT6, HOST4, HOST6, WEB4, WEB6, counters, inum, netem, nft, set_feature, socket_in, tc
from .proc import MS, Traffic, expect, expect_that, run
from .test_every import udp_way
from .test_tcp import check_way, way
from .tool import brief

SHORT = 15 * MS
SO_MAX_PACING_RATE, SO_TXTIME, CLOCK_MONOTONIC = 47, 61, 1
UDP_CORK, UDP_SEGMENT = 1, 103
NETIF_F_GSO_UDP_L4_BIT = 33  # on 5.10 to 7.3
HOST_MAC = "02:00:00:00:01:01"
BOTH = ((WEB4, 4), (WEB6, 6))
ports = itertools.count(7600)


def kind(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def of_port(port):
    return lambda packet: port in (packet["dport"], packet["sport"])


@contextlib.contextmanager
def pair(address, port):
    """A client's UDP socket, connected to one in the container."""
    with socket_in("client", kind(address), socket.SOCK_DGRAM) as sender, \
            socket_in("web", kind(address), socket.SOCK_DGRAM) as reader:
        reader.bind((address, port))
        reader.settimeout(10)
        sender.connect((address, port))
        yield sender, reader


@contextlib.contextmanager
def qdisc(netns, dev, *words):
    run("modprobe", f"sch_{words[0]}")
    tc(netns, "qdisc", "replace", "dev", dev, "root", *words)
    try:
        yield
    finally:
        tc(netns, "qdisc", "del", "dev", dev, "root")


def check_held(packet, stage, dev, netns, low_ms, high_ms):
    """Held so long by one stage; what is above that, and all else, is the machine's noise if it is not short."""
    if packet["partial"] or packet["end"] == "unknown":
        raise Missed(f"the first or last hop of {brief([packet])}")
    expect("slowest", [packet["slowest"].get(k) for k in ("stage", "dev", "netns")], [stage, dev, inum(netns)])
    held = packet["slowest"]["ns"]
    expect_that(f"held {low_ms} ms at least", held >= low_ms * MS, brief([packet]))
    if held > high_ms * MS + SHORT or packet["total_ns"] - held > SHORT:
        raise Noisy(f"{brief([packet])}, of {low_ms} to {high_ms} ms")


def send_two(slow, address, prepare):
    """Two datagrams of 1400 bytes; gives the second one, which alone is slow."""
    port = next(ports)
    slow.mark()
    with pair(address, port) as (sender, reader):
        prepare(sender)
        sender.send(bytes(1400))
        before = time.monotonic_ns()
        sender.send(bytes(1400))
        after = time.monotonic_ns()
        for _ in range(2):
            reader.recv(2000)
        packets = slow.exactly(1, of_port(port))
    packet = packets[0]
    expect_that("it is the second", before - MS <= packet["mono_ns"] <= after + MS, (before, packet["mono_ns"], after))
    return packet


@test
def held_by_tbf(slow):
    """1442 bytes at 80 kbit/s take 144 ms, of which the rest of the burst pays a part."""
    def attempt():
        check_held(send_two(slow, address, lambda sender: None), "qdisc", "cli0", "client", 120, 145)
    for address, _ in BOTH:
        with qdisc("client", "cli0", "tbf", "rate", "80kbit", "burst", "1600", "limit", "100000"):
            quietly(attempt)


@test
def held_by_fq_pacing(slow):
    """At 10000 bytes a second the second one waits for as long as the first one takes."""
    def attempt():
        packet = send_two(slow, address, lambda sender: sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 10000))
        check_held(packet, "qdisc", "cli0", "client", 135, 150)
    for address, _ in BOTH:
        with qdisc("client", "cli0", "fq"):
            quietly(attempt)


def send_at_time(slow, address):
    port = next(ports)
    slow.mark()
    with pair(address, port) as (sender, reader):
        sender.setsockopt(socket.SOL_SOCKET, SO_TXTIME, struct.pack("iI", CLOCK_MONOTONIC, 0))
        when = time.monotonic_ns() + 150 * MS
        sender.sendmsg([bytes(100)], [(socket.SOL_SOCKET, SO_TXTIME, struct.pack("Q", when))])
        reader.recv(2000)
        packet, = slow.exactly(1, of_port(port))
    check_held(packet, "qdisc", "cli0", "client", 100, 150)
    left = packet["mono_ns"] + next(h["at_ns"] for h in packet["hops"] if h["func"] == "dev_hard_start_xmit")
    expect_that("it left when it was told to", when <= left <= when + SHORT, (when, left))


@test
def held_by_fq_until_its_time(slow):
    with qdisc("client", "cli0", "fq"):
        for address, _ in BOTH:
            quietly(lambda: send_at_time(slow, address))


@contextlib.contextmanager
def unresolved(family):
    """The client has forgotten the host's address, and the host does not answer who asks for it."""
    address = {4: HOST4, 6: HOST6}[family]
    with nft(None, "add chain inet e2e i { type filter hook input priority 0; };"
                   "add rule inet e2e i icmpv6 type nd-neighbor-solicit drop"):
        run("sysctl", "-qw", "net.ipv4.conf.host0.arp_ignore=8")
        run("ip", "-n", "client", "neigh", "del", address, "dev", "cli0")
        try:
            yield
        finally:
            resolve(family)
            run("sysctl", "-qw", "net.ipv4.conf.host0.arp_ignore=0")


def resolve(family):
    run("ip", "-n", "client", "neigh", "replace", {4: HOST4, 6: HOST6}[family], "dev", "cli0", "lladdr", HOST_MAC,
        "nud", "permanent")


def await_neighbour(slow, address, family):
    port = next(ports)
    slow.mark()
    with Traffic("web", "udp-read", address, port) as reader, \
            socket_in("client", kind(address), socket.SOCK_DGRAM) as sender, unresolved(family):
        sender.connect((address, port))
        begun = time.monotonic_ns()
        sender.send(bytes(100))
        sent = time.monotonic_ns()
        time.sleep(0.15)
        before = time.monotonic_ns()
        resolve(family)
        _, _, _, _, read = reader.await_events("read", 1)[0]
        packet, = slow.exactly(1, of_port(port))
    check_held(packet, "neigh", "cli0", "client", (before - sent) // MS, (read - begun) // MS)
    check_way(packet, udp_way(True, family))


@test
def held_for_a_neighbour(slow):
    for address, family in BOTH:
        quietly(lambda: await_neighbour(slow, address, family))


def send_corked(slow, address, family, port, cork):
    """It is put together over 100 ms; its time begins when it is sent."""
    slow.mark()
    with pair(address, port) as (sender, reader), netem(None, "vethc", "delay", "100ms"):
        before, after = cork(sender)
        expect("the datagram's length", len(reader.recv(2000)), 300)
        packet, = slow.exactly(1, of_port(port))
    expect("len", packet["len"], 300)
    expect_that("its time begins when it is sent", before - MS // 10 <= packet["mono_ns"] <= after + MS // 10,
                (before, packet["mono_ns"], after))
    check_held(packet, "qdisc", "vethc", None, 100, 100)
    check_way(packet, udp_way(True, family))


def by_option(sender):
    sender.setsockopt(socket.IPPROTO_UDP, UDP_CORK, 1)
    sender.send(bytes(100))
    sender.send(bytes(200))
    time.sleep(0.1)
    before = time.monotonic_ns()
    sender.setsockopt(socket.IPPROTO_UDP, UDP_CORK, 0)
    return before, time.monotonic_ns()


def by_flag(sender):
    sender.send(bytes(100), socket.MSG_MORE)
    time.sleep(0.1)
    before = time.monotonic_ns()
    sender.send(bytes(200))
    return before, time.monotonic_ns()


@test
def corked_datagrams(slow):
    for address, family in BOTH:
        for cork in (by_option, by_flag):
            quietly(lambda: send_corked(slow, address, family, next(ports), cork))


TRAIN, SIZE = 5, 400


def send_train(slow, address, family):
    """
    One sendmsg() of five datagrams, by a control message. What was cut at the socket
    begins there. Returns how many packets the device has sent.
    """
    port = next(ports)
    slow.mark()
    with pair(address, port) as (sender, reader), netem("client", "cli0", "delay", "100ms"):
        count, _ = counters("client", "cli0")
        before = time.monotonic_ns()
        sender.sendmsg([bytes(TRAIN * SIZE)], [(socket.IPPROTO_UDP, UDP_SEGMENT, struct.pack("H", SIZE))])
        after = time.monotonic_ns()
        for _ in range(TRAIN):
            expect("a datagram's length", len(reader.recv(2000)), SIZE)
        slow.fence()
        packets = slow.finals(of_port(port))
        count = counters("client", "cli0")[0] - count
    whole = [p for p in packets if not p["partial"]]
    if any(p["total_ns"] > SHORT for p in packets if p["partial"]):
        raise Noisy(brief(packets))
    expect("journeys of a train that are whole", len(whole), 1)
    expect("len and segs", [whole[0][k] for k in ("len", "segs")], [SIZE, 1])
    expect_that("when it was sent", before - MS // 10 <= whole[0]["mono_ns"] <= after + MS // 10, brief(whole))
    check_held(whole[0], "qdisc", "cli0", "client", 100, 100)
    check_way(whole[0], udp_way(True, family))
    return count


@test
def train_by_control_message(slow):
    for address, family in BOTH:
        quietly(lambda: send_train(slow, address, family))


@test
def train_is_cut_below_the_qdisc(slow):
    """The device is told not to take trains."""
    set_feature("client", "cli0", NETIF_F_GSO_UDP_L4_BIT, False)
    try:
        for address, family in BOTH:
            expect("packets that the device has sent", quietly(lambda: send_train(slow, address, family)), TRAIN)
    finally:
        set_feature("client", "cli0", NETIF_F_GSO_UDP_L4_BIT, True)


OPTIONS = bytes([0, 0, 1, 4, 0, 0, 0, 0])  # of eight bytes, which pad


def extend(s):
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_HOPOPTS, OPTIONS)
    s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_DSTOPTS, OPTIONS)


def send_extended_datagram(slow):
    port = next(ports)
    slow.mark()
    with pair(WEB6, port) as (sender, reader), netem(None, "vethc", "delay", "100ms"):
        extend(sender)
        sender.send(bytes(100))
        expect("its length", len(reader.recv(2000)), 100)
        packet, = slow.exactly(1, of_port(port))
    expect("ends", [packet[k] for k in ("src", "dst", "dport", "len", "dir")], [CLIENT6, WEB6, port, 100, "loc"])
    check_held(packet, "qdisc", "vethc", None, 100, 100)
    check_way(packet, udp_way(True, 6))


def send_extended_segments(slow):
    port = next(ports)
    slow.mark()
    with Traffic("web", "tcp-echo", WEB6, port), netem(None, "vethc", "delay", "100ms"), \
            socket_in("client", socket.AF_INET6, socket.SOCK_STREAM) as s:
        extend(s)
        s.connect((WEB6, port))
        s.sendall(struct.pack(">II", 64, 8) + bytes(56))
        expect("the response's length", len(s.recv(8, socket.MSG_WAITALL)), 8)
        slow.await_packets(1, lambda p: p["dport"] == port and p["len"])
        slow.fence()
        packets = sorted(slow.finals(lambda p: p["dport"] == port), key=lambda p: p["mono_ns"])
    expect("the first one's flags", packets[0]["flags"], "S")
    expect("a request's len", [p["len"] for p in packets if p["len"]], [64])
    for packet in packets:
        expect("dir and retrans", [packet[k] for k in ("dir", "retrans")], ["loc", False])
        check_held(packet, "qdisc", "vethc", None, 100, 100)
    check_way(packets[0], way(True, "tcp_rcv_state_process", 6))


@test
def ipv6_with_extension_headers(slow):
    quietly(lambda: send_extended_datagram(slow))
    quietly(lambda: send_extended_segments(slow))


def send_through_tbf(slow):
    """
    tbf takes segments only. It is not said of a whole range that it waited as long as
    the first of its segments did: each line is about one, that of the first.
    """
    port = next(ports)
    slow.mark()
    with Traffic("web", "tcp-echo", WEB4, port), \
            qdisc("client", "cli0", "tbf", "rate", "2mbit", "burst", "1600", "limit", "1000000"), \
            socket_in("client", socket.AF_INET, socket.SOCK_STREAM) as s:
        s.connect((WEB4, port))
        s.sendall(struct.pack(">II", 60000, 8) + bytes(60000 - 8))
        expect("the response's length", len(s.recv(8, socket.MSG_WAITALL)), 8)
        slow.fence()
        packets = slow.finals(lambda p: p["dport"] == port and p["len"])
    expect_that("several waited", len(packets) > 2, brief(packets))
    for packet in packets:
        expect_that("a segment's length", packet["len"] <= 1448, packet["len"])
        expect_that("its own time", packet["total_ns"] < 240 * MS, brief([packet]))
        if packet["partial"]:
            raise Noisy(brief([packet]))
        expect("slowest", [packet["slowest"][k] for k in ("stage", "dev")], ["qdisc", "cli0"])
        check_way(packet, way(True, "tcp_rcv_established", 4))


@test
def cut_in_a_qdisc(slow):
    quietly(lambda: send_through_tbf(slow))
