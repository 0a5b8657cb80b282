# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""-l 0 prints every packet, once."""
import datetime
import time

from .harness import quietly, test
from .lab import WEB4, WEB6
from .proc import MS, Traffic, expect, expect_that
from .test_tcp import check_way, way
from .tool import end_time

TRIPS = 20


def udp_way(there, family):
    """As TCP's, up to where the transport layer comes in."""
    def to_udp(hops):
        netns = hops[-1][2]
        return hops[:-2] + [("udp_unicast_rcv_skb", None, netns, "input"), ("__skb_recv_udp", None, netns, "socket")]
    return way(there, "", family, to_udp)


def check_trips(every, address, family, port):
    every.mark()
    with Traffic("web", "udp-echo", address, port) as server, \
            Traffic("client", "udp-rr", address, port, "-n", TRIPS, "--log", "--wait") as client:
        client.go()
        client.done()
        trips = client.events("trip")
        packets = every.exactly(2 * TRIPS, lambda p: port in (p["sport"], p["dport"]))
    packets.sort(key=lambda p: p["mono_ns"])
    expect("each trip is a request and a response", [p["dport"] == port for p in packets], [True, False] * TRIPS)
    for (_, before, after), request, response in zip(trips, packets[::2], packets[1::2]):
        expect("end", (request["end"], response["end"]), ("read", "read"))
        expect("dir", (request["dir"], response["dir"]), ("loc", "loc"))
        expect("readers", (request["reader"]["pid"], response["reader"]["pid"]), (server.pid, client.pid))
        expect_that("both lie within the client's trip, one after the other",
                    before <= request["mono_ns"] and end_time(request) <= response["mono_ns"] and
                    end_time(response) <= after + MS // 10, (before, request, response, after))
        for packet, there in ((request, True), (response, False)):
            check_way(packet, udp_way(there, family))
            expect("len", packet["len"], 64)
    return packets


@test
def every_udp_packet_once(every):
    quietly(lambda: check_trips(every, WEB4, 4, 5700))


@test
def every_udp_packet_once_ipv6(every):
    quietly(lambda: check_trips(every, WEB6, 6, 5700))


@test
def numbers_and_clocks(every):
    """pkt counts; time is the wall clock's of the same moment as mono_ns."""
    packets = quietly(lambda: check_trips(every, WEB4, 4, 5701))
    numbers = sorted(p["pkt"] for p in packets)
    expect_that("numbers are given once", len(set(numbers)) == len(numbers), numbers)
    offset = time.time() - time.monotonic()
    for packet in packets:
        seconds, nanos = packet["time"].rstrip("Z").split(".")
        wall = datetime.datetime.fromisoformat(seconds + "+00:00").timestamp() + int(nanos) / 1e9
        expect("digits of the nanoseconds", len(nanos), 9)
        expect_that("time and mono_ns are one moment", abs(wall - packet["mono_ns"] / 1e9 - offset) < 0.01,
                    (packet["time"], packet["mono_ns"], offset))


