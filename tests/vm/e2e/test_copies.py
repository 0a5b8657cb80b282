# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A segment that is sent again: each copy has its own times, and the gap between them is nobody's."""
import contextlib

from .harness import Missed, Noisy, quietly, test
from .lab import WEB4, drops, nft
from .proc import MS, Traffic, expect, expect_that, run, wait_for
from .test_reuse import of_port
from .test_udp import SLACK
from .tool import brief, end_time


@contextlib.contextmanager
def established(port):
    with Traffic("web", "tcp-echo", WEB4, port, "--log") as server, \
            Traffic("client", "tcp-rr", WEB4, port, "-n", 1, "--warmup", 3, "--wait", "--hold", "--log") as client:
        yield server, client


def check_copies(every, server, port, first_sent):
    """
    All copies of one segment, each with its own times only. Returns those that were sent
    before the one that arrived; where its ACK is slow, another one may follow it.
    """
    got = server.events("got")[-1][1]
    every.fence()
    packets = [p for p in every.finals(of_port(port)) if p["dport"] == port and p["len"]]
    packets.sort(key=lambda p: p["mono_ns"])
    packets = [p for p in packets if p["seq"] == packets[-1]["seq"]]
    arrived = [i for i, p in enumerate(packets) if p["end"] == "delivered"]
    expect_that("a first copy and one that arrived", arrived and arrived[0] > 0, brief(packets))
    lost, copy = packets[:arrived[0]], packets[arrived[0]]
    expect("partial", [p["partial"] for p in packets], [False] * len(packets))
    expect_that("the gap until the retransmission", copy["mono_ns"] - first_sent >= 150 * MS,
                (copy["mono_ns"] - first_sent) / MS)
    if end_time(copy) > got + SLACK:  # then one before it has arrived, too
        raise Missed(f"the copy that the server read: {brief(packets)}")
    for packet, following in zip(packets, packets[1:]):
        expect_that("a copy's total ends before the next one begins", end_time(packet) <= following["mono_ns"],
                    brief(packets))
    if max(p["total_ns"] for p in packets) >= 50 * MS:
        raise Noisy(brief(packets))
    return lost


def dropped_copies(every):
    every.mark()
    with established(8100) as (server, client):
        with nft(None, "add chain inet e2e f { type filter hook forward priority 0; };"
                       "add rule inet e2e f tcp dport 8100 counter drop"):
            client.go()
            wait_for("the rule has dropped the first copy", drops)
        client.done()
        lost = check_copies(every, server, 8100, client.events("trip")[-1][1])
        expect("ends of the copies that were dropped", {p["end"] for p in lost}, {"dropped"})


@test
def retransmission_of_a_dropped_segment(every):
    quietly(lambda: dropped_copies(every), 3)


def lost_copies(every):
    """The first copy ends where no tracepoint is: in a dummy device."""
    every.mark()
    run("modprobe", "dummy", "numdummies=0")
    run("ip", "-n", "client", "link", "add", "dummy0", "type", "dummy")
    try:
        run("ip", "-n", "client", "link", "set", "dummy0", "up")
        run("ip", "-n", "client", "neigh", "add", WEB4, "dev", "dummy0", "lladdr", "02:00:00:00:00:09",
            "nud", "permanent")
        with established(8110) as (server, client):
            run("ip", "-n", "client", "route", "add", WEB4, "dev", "dummy0")
            client.go()
            wait_for("the dummy device has eaten the first copy",
                     lambda: "packets" in (text := run("ip", "-n", "client", "-s", "link", "show", "dummy0")) and
                     int(text.splitlines()[-1].split()[1]) > 0)
            run("ip", "-n", "client", "route", "del", WEB4, "dev", "dummy0")
            client.done()
            # an end that nobody saw comes with the next use of the skb, or with a sweep
            wait_for("all copies printed", lambda: len([p for p in every.packets(of_port(8110))
                                                        if p["end"] == "unknown"]) >= 1, 10)
            lost = check_copies(every, server, 8110, client.events("trip")[-1][1])
            expect("ends of the copies that were lost", {p["end"] for p in lost}, {"unknown"})
            expect("where they were seen last", {p["hops"][-1].get("dev") for p in lost}, {"dummy0"})
    finally:
        run("ip", "-n", "client", "link", "del", "dummy0")


@test
def retransmission_of_a_lost_segment(every):
    quietly(lambda: lost_copies(every), 3)
