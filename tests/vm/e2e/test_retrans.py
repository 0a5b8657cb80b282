# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
What TCP sends again is marked, and has its own time. The host drops the first of each
kind of segment; what comes through to the container is held for 100 ms.
"""
import itertools
import socket
import struct

from .harness import Missed, Noisy, quietly, test
from .lab import WEB4, WEB6, drops, netem, nft, socket_in
from .proc import MS, Traffic, expect, expect_that, run
from .tool import brief

NEAR = 15 * MS
HELD_MS = 100
ports = itertools.count(7300)


def lose_first(port):
    """Rules that drop the first of each kind, and no more."""
    once = "limit rate 1/hour burst 1 packets counter drop"
    kinds = [f"tcp dport {port} tcp flags & (syn|ack) == syn", f"tcp sport {port} tcp flags & (syn|ack) == syn|ack",
             # more than the headers with all their options
             f"tcp dport {port} meta length > 110", f"tcp sport {port} meta length > 110",
             f"tcp dport {port} tcp flags & fin == fin", f"tcp sport {port} tcp flags & fin == fin"]
    return "add chain inet e2e f { type filter hook forward priority 0; };" + \
           ";".join(f"add rule inet e2e f {kind} {once}" for kind in kinds)


def of_port(port):
    return lambda packet: packet["proto"] == "tcp" and port in (packet["sport"], packet["dport"])


def carries(packet):
    """Whether it has what could be lost."""
    return packet["len"] or set("SF") & set(packet["flags"])


def kind_of(packet, port):
    way = "there" if packet["dport"] == port else "back"
    return f"{way} {'data' if packet['len'] else packet['flags'].replace('P', '')}"


def copies_of(packets):
    """Lists of what was sent with the same numbers, in the order of time."""
    copies = {}
    for packet in sorted(filter(carries, packets), key=lambda p: p["mono_ns"]):
        copies.setdefault((packet["sport"], packet["seq"], packet["len"]), []).append(packet)
    return list(copies.values())


def check_marks(packets):
    """The first of each is no retransmission, each later one is, and an ACK never is."""
    for packet in packets:
        if packet["partial"]:
            raise Missed(f"the first hop of {brief([packet])}")
        if not carries(packet):
            expect(f"retrans of {brief([packet])}", packet.get("retrans"), False)
    for copies in copies_of(packets):
        expect(f"retrans of {brief(copies)}", [p.get("retrans") for p in copies],
               [False] + [True] * (len(copies) - 1))


def converse(every, address, port):
    every.mark()
    with Traffic("web", "tcp-echo", address, port), \
            Traffic("client", "tcp-rr", address, port, "-n", 2) as client:
        client.done()
        expect("status of the client", client.wait(), 0)
    # the last ACK is the client's, once it has seen the server's FIN
    every.await_packets(1, lambda p: of_port(port)(p) and p["sport"] == port and "F" in p["flags"] and
                        p["end"] == "delivered")
    every.fence()
    return every.finals(of_port(port))


def check_losses(every, address):
    port = next(ports)
    with nft(None, lose_first(port)), netem(None, "vethc", "delay", f"{HELD_MS}ms"):
        packets = converse(every, address, port)
        dropped = drops()
    check_marks(packets)
    expect("packets that the rules dropped", dropped, 6)
    lost = [copies for copies in copies_of(packets) if copies[0]["end"] == "dropped"]
    expect("kinds that were lost once", sorted(kind_of(copies[0], port) for copies in lost),
           ["back F.", "back S.", "back data", "there F.", "there S", "there data"])
    for copies in lost:
        again = copies[1]
        expect("end of " + brief([again]), again["end"], "delivered")
        since = again["mono_ns"] - copies[0]["mono_ns"]
        expect_that("it was sent again after a while", since >= 150 * MS, since)
        held = HELD_MS * MS if again["dport"] == port else 0
        expect_that("its own time", again["total_ns"] >= held, brief([again]))
        if again["total_ns"] > held + NEAR:
            raise Noisy(brief([again]))


@test
def retransmissions_are_marked(every):
    quietly(lambda: check_losses(every, WEB4))


@test
def retransmissions_are_marked_ipv6(every):
    quietly(lambda: check_losses(every, WEB6))


def check_nothing_lost(every, address):
    packets = converse(every, address, next(ports))
    check_marks(packets)
    if any(len(copies) > 1 for copies in copies_of(packets)):
        raise Noisy("something was sent again")


@test
def without_a_loss_nothing_is_marked(every):
    quietly(lambda: check_nothing_lost(every, WEB4))
    quietly(lambda: check_nothing_lost(every, WEB6))


def check_cookie(every, address):
    packets = converse(every, address, next(ports))
    synacks = [p for p in packets if p["flags"] == "S."]
    expect_that("SYN-ACKs", synacks, brief(packets))
    for packet in synacks:
        expect(f"'retrans' in {brief([packet])}", "retrans" in packet, False)
    check_marks([p for p in packets if p["flags"] != "S."])


@test
def of_a_syn_cookie_it_is_not_known(every):
    """The server does not remember that it has answered."""
    run("sysctl", "-qw", "net.ipv4.tcp_syncookies=2", netns="web")
    try:
        quietly(lambda: check_cookie(every, WEB4))
        quietly(lambda: check_cookie(every, WEB6))
    finally:
        run("sysctl", "-qw", "net.ipv4.tcp_syncookies=1", netns="web")


def check_keepalive(every):
    port = next(ports)
    every.mark()
    with Traffic("web", "tcp-echo", WEB4, port), socket_in("client", socket.AF_INET, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
        s.connect((WEB4, port))
        s.sendall(struct.pack(">II", 64, 8) + bytes(56))
        expect("the response's length", len(s.recv(8, socket.MSG_WAITALL)), 8)
        request, = every.await_packets(1, lambda p: p["dport"] == port and p["len"] == 64)[:1]
        # a number that was sent before, and nothing with it
        probe = every.await_packets(1, lambda p: p["dport"] == port and not p["len"] and
                                    p["seq"] == request["seq_end"] - 1 & 0xffffffff)[0]
    expect("retrans and flags of a keepalive probe", [probe.get(k) for k in ("retrans", "flags")], [False, "."])


@test
def a_keepalive_probe_is_none(every):
    quietly(lambda: check_keepalive(every))
