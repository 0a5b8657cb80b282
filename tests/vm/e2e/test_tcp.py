# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
The second article (pkgtool): a segment's way through a container host, hop by hop.
netem holds what the container sends for 100 ms, and what goes to it for 200 ms.
"""
import contextlib

from .harness import Missed, Noisy, Skip, quietly, test
from .lab import (ETHTOOL_SGRO, ETHTOOL_STSO, HOST_NS, KERNEL, WEB4, WEB6, Passed, ethtool, inum, netem)
from .proc import MS, Failure, Traffic, expect, expect_that, run
from .tool import brief, end_time

NEAR = 12 * MS  # for all that is not held, in an emulated machine
THERE_MS, BACK_MS = 200, 100

# (function, device, netns, the stage that ends there); None: not known there, or no stage
THERE = [
    ("ip_queue_xmit", None, "client", None),
    ("ip_finish_output2", "cli0", "client", "output"),
    ("__dev_queue_xmit", "cli0", "client", "neigh"),
    ("dev_hard_start_xmit", "cli0", "client", "qdisc"),
    ("netif_rx", "host0", None, "device"),
    ("__netif_receive_skb", "host0", None, "backlog"),
    ("ip_rcv", "host0", None, "link"),
    ("ip_finish_output2", "docker0", None, "forward"),
    ("__dev_queue_xmit", "docker0", None, "neigh"),
    ("dev_hard_start_xmit", "docker0", None, "qdisc"),
    ("__dev_queue_xmit", "vethc", None, "device"),
    ("dev_hard_start_xmit", "vethc", None, "qdisc"),
    ("netif_rx", "eth0", "web", "device"),
    ("__netif_receive_skb", "eth0", "web", "backlog"),
    ("ip_rcv", "eth0", "web", "link"),
    ("tcp_v4_rcv", "eth0", "web", "input"),
    ("STATE", None, "web", "tcplock"),
]
BACK = [
    ("ip_queue_xmit", None, "web", None),
    ("ip_finish_output2", "eth0", "web", "output"),
    ("__dev_queue_xmit", "eth0", "web", "neigh"),
    ("dev_hard_start_xmit", "eth0", "web", "qdisc"),
    ("netif_rx", "vethc", None, "device"),
    ("__netif_receive_skb", "vethc", None, "backlog"),
    ("br_handle_frame_finish", "vethc", None, "bridge"),
    ("__netif_receive_skb", "docker0", None, "bridge"),
    ("ip_rcv", "docker0", None, "link"),
    ("ip_finish_output2", "host0", None, "forward"),
    ("__dev_queue_xmit", "host0", None, "neigh"),
    ("dev_hard_start_xmit", "host0", None, "qdisc"),
    ("netif_rx", "cli0", "client", "device"),
    ("__netif_receive_skb", "cli0", "client", "backlog"),
    ("ip_rcv", "cli0", "client", "link"),
    ("tcp_v4_rcv", "cli0", "client", "input"),
    ("STATE", None, "client", "tcplock"),
]
IPV6 = {"ip_finish_output2": "ip6_finish_output2", "ip_rcv": "ipv6_rcv", "tcp_v4_rcv": "tcp_v6_rcv"}


def way(there, state, family, change=lambda hops: hops):
    """The hops that a segment must have."""
    names = IPV6 if family == 6 else {}
    return [(state if func == "STATE" else names.get(func, func), dev, inum(netns), stage)
            for func, dev, netns, stage in change(list(THERE if there else BACK))]


def way_of(packet):
    return [(hop["func"], hop.get("dev"), hop.get("netns"), hop["stage"]) for hop in packet["hops"]]


def check_way(packet, expected):
    seen = way_of(packet)
    if seen != expected:
        missing = [hop for hop in expected if hop not in seen]
        functions = iter(hop[:3] for hop in expected)
        kind = Missed if all(hop[:3] in functions for hop in seen) else Failure
        raise kind(f"the hops of {brief([packet])}: missing {missing}, "
                      f"too many {[hop for hop in seen if hop not in expected]}; seen {seen}")


@contextlib.contextmanager
def delays():
    with netem(None, "vethc", "delay", f"{THERE_MS}ms"), netem("web", "eth0", "delay", f"{BACK_MS}ms"):
        yield


class Connection:
    """Two requests over a connection, from the SYN to the last ACK, and the packets printed of it."""

    def __init__(self, view, family, port):
        address = {4: WEB4, 6: WEB6}[family]
        view.mark()
        with Traffic("web", "tcp-echo", address, port, "--log") as server:
            passed = Passed()
            with Traffic("client", "tcp-rr", address, port, "-n", 2, "--log") as client:
                client.done()
                self.pid = client.pid
                expect("status of the client", client.wait(), 0)
            self.packets = passed.settled()
        there, back = self.packets
        # each packet that the devices have counted is printed once, and nothing else
        found = view.exactly(there + back, lambda p: port in (p["dport"], p["sport"]))
        found.sort(key=lambda p: p["mono_ns"])
        self.there = [p for p in found if p["dport"] == port]
        self.back = [p for p in found if p["sport"] == port]
        expect("packets (there, back)", (len(self.there), len(self.back)), self.packets)
        self.trips = client.events("trip")
        self.connected = client.events("connected")[0]
        self.closed = client.events("closed")[0]
        self.got = [got[1] for got in server.events("got")]
        self.eof = server.events("eof")[0][0]

    def quiet(self):
        """Whether the traffic itself took as long as the two qdiscs hold it."""
        took = [after - before for before, after in
                [self.connected, self.closed] + [trip[1:] for trip in self.trips]]
        return max(took) - (THERE_MS + BACK_MS) * MS <= NEAR

    def one(self, there, flags, long=None, last=False):
        """The packet with these flags (of several, the last), with or without payload."""
        found = [p for p in (self.there if there else self.back)
                 if p["flags"] == flags and (long is None or bool(p["len"]) == long)]
        expect_that(f"a packet {'there' if there else 'back'} with flags {flags}", found,
                    brief(self.there + self.back))
        return found[-1 if last else 0]


def check_held(packet, dev, netns, ms, quiet):
    """Held by one qdisc for so long, and by nothing else for any time worth a word."""
    expect("slowest", [packet["slowest"][k] for k in ("stage", "from", "to", "dev", "netns")],
           ["qdisc", "__dev_queue_xmit", "dev_hard_start_xmit", dev, netns])
    slowest, total = packet["slowest"]["ns"], packet["total_ns"]
    expect_that(f"held {ms} ms at least", slowest >= ms * MS, brief([packet]))
    if slowest > ms * MS + NEAR or total > ms * MS + NEAR:
        if quiet:
            raise Noisy(f"{brief([packet])}, of {ms} ms")
        raise Noisy("the round trips were slow")


def check_connection(c, family, change=lambda hops: hops):
    for packet in c.there + c.back:
        if packet["partial"]:
            raise Missed(f"the first hop of {brief([packet])}")
        if packet["end"] == "unknown":
            raise Missed(f"the last hop of {brief([packet])}")
        expect("partial, truncated, end, dir of " + brief([packet]),
               [packet[k] for k in ("partial", "truncated", "end", "dir")],
               [False, False, "delivered", "loc"])
        expect_that("no NAT", "nat" not in packet, packet)

    syn, syn_ack = c.one(True, "S"), c.one(False, "S.")
    established, state = "tcp_rcv_established", "tcp_rcv_state_process"
    check_way(syn, way(True, state, family, change))
    check_way(syn_ack, way(False, state, family, change))
    expect("the SYN's numbers", (syn["len"], syn["ack"]), (0, 0))
    expect("the SYN-ACK's ack", syn_ack["ack"], syn["seq"] + 1 & 0xffffffff)

    requests = [p for p in c.there if p["len"]]
    responses = [p for p in c.back if p["len"]]
    if len(requests) + len(responses) > 4 and not c.quiet():
        raise Noisy("the round trips took so long that data was sent again")
    expect("requests and responses", (len(requests), len(responses)), (2, 2))
    # the first comes right behind the handshake's ACK, and may be there before it, or before the socket has moved on
    early = requests[0]["hops"][-1]["func"] == state
    for i, (request, response) in enumerate(zip(requests, responses)):
        check_way(request, way(True, state if early and i == 0 else established, family, change))
        check_way(response, way(False, established, family, change))
        expect("len and range of a request", [request[k] for k in ("len", "seq", "seq_end")],
               [64, syn["seq"] + 1 + 64 * i & 0xffffffff, syn["seq"] + 65 + 64 * i & 0xffffffff])
        hop = request["hops"][0]
        expect("who sends", [hop[k] for k in ("ctx", "pid", "comm")], ["owner", c.pid, "traffic"])
        # the two ends' own clocks
        _, before, after = c.trips[i]
        expect_that("a request and its response lie within the client's round trip",
                    before <= request["mono_ns"] and end_time(request) <= response["mono_ns"] and
                    end_time(response) <= after + MS // 10, (request, response, c.trips[i]))
        expect_that("a request has arrived when the server reads it",
                    end_time(request) <= c.got[i] + MS // 10, (request, c.got[i]))
    expect_that("SYN and SYN-ACK lie within the client's connect",
                c.connected[0] <= syn["mono_ns"] and end_time(syn) <= syn_ack["mono_ns"] and
                end_time(syn_ack) <= c.connected[1] + MS // 10, (syn, syn_ack, c.connected))

    fin, fin_back = c.one(True, "F."), c.one(False, "F.")
    expect_that("the FIN has arrived when the server sees it", end_time(fin) <= c.eof + MS // 10, (fin, c.eof))
    check_way(fin, way(True, established, family, change))
    check_way(fin_back, way(False, state, family, change))
    ack = c.one(True, ".", False)
    overtaken = early and ack["hops"][-1]["func"] == established
    check_way(ack, way(True, established if overtaken else state, family, change))
    expect_that("the handshake's ACK", ack["seq"] == syn["seq"] + 1 & 0xffffffff, ack)
    check_way(c.one(True, ".", False, last=True), way(True, state, family, change))

    quiet = c.quiet()
    for packet in c.there:
        check_held(packet, "vethc", HOST_NS, THERE_MS, quiet)
    for packet in c.back:
        check_held(packet, "eth0", inum("web"), BACK_MS, quiet)


@test
def container_host_tcp(slow):
    with delays():
        quietly(lambda: check_connection(Connection(slow, 4, 8000), 4))


@test
def container_host_tcp_ipv6(slow):
    with delays():
        quietly(lambda: check_connection(Connection(slow, 6, 8000), 6))


@test
def container_host_with_br_netfilter(slow):
    """The bridge calls netfilter: the way is the same, and so is each packet on it."""
    run("modprobe", "br_netfilter")
    try:
        with delays():
            quietly(lambda: check_connection(Connection(slow, 4, 8001), 4))
            quietly(lambda: check_connection(Connection(slow, 6, 8001), 6))
    finally:
        run("rmmod", "br_netfilter")


@test
def container_host_with_napi_veth(slow):
    """A veth in NAPI mode calls no netif_rx: its time is `napi`."""
    if KERNEL < (5, 13):
        raise Skip("veth has no NAPI without XDP before 5.13")

    def without_netif_rx(hops):
        return [(func, dev, netns, "napi" if func == "__netif_receive_skb" and dev == "eth0" else stage)
                for func, dev, netns, stage in hops if (func, dev) != ("netif_rx", "eth0")]

    ethtool("web", "eth0", ETHTOOL_SGRO, 1)
    ethtool(None, "vethc", ETHTOOL_STSO, 0)
    try:
        with delays():
            quietly(lambda: check_connection(Connection(slow, 4, 8002), 4, without_netif_rx))
    finally:
        ethtool(None, "vethc", ETHTOOL_STSO, 1)
        ethtool("web", "eth0", ETHTOOL_SGRO, 0)
