# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Between the driver and the stack: GRO holds a packet, and RPS sends it to another CPU,
which is busy. Seen only where -l gro=TIME or -l rps=TIME asks for it.
"""
import contextlib
import itertools
import os
import re
import socket
import time

from .harness import Noisy, Skip, quietly, test
from .holds import HOLDER, OTHER, Tap, datagram, gro_waits, holding, on_cpu, to_cpu
from .lab import ETHTOOL_SGRO, ETHTOOL_STSO, HOST_NS, KERNEL, WEB4, ethtool, inum, within
from .proc import MS, expect, expect_that, send
from .test_nic import CLIENT, OURS, PORT, answer_at, begin, nic
from .test_tcp import NEAR
from .tool import brief, tracing

HELD = 200  # ms
UDP_GRO = 104
OTHERS = 15 * MS

# the hops by which a tap hands a datagram to the stack
TO_STACK = {Tap.PLAIN: [], Tap.NAPI: ["napi_gro_receive"], Tap.FRAGS: ["napi_gro_frags"]}


def reader(netns, address, port):
    """A socket of which GRO knows that it takes trains; or it would hold no datagram."""
    def bind():
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        s.bind((address, port))
        s.settimeout(20)
        return s
    return within(netns, bind)


def of_port(port):
    return lambda packet: port in (packet["sport"], packet["dport"])


def way(packet):
    return [(hop["func"], hop["stage"]) for hop in packet["hops"]]


def check_held(packet, stage, ms, func=None):
    """Held in this stage for so long, and by nothing else for any time worth a word."""
    slowest = packet["slowest"]
    expect(f"slowest stage of {brief([packet])}", slowest["stage"], stage)
    if func:
        expect("where it begins", slowest["from"], func)
    times = [hop["at_ns"] for hop in packet["hops"]]
    waits = sorted(b - a for a, b in zip(times, times[1:]))
    expect_that(f"held {ms} ms at least", waits[-1] >= ms * MS, brief([packet]))
    if waits[-1] > ms * MS + NEAR or waits[-2] >= OTHERS:
        raise Noisy(brief([packet]))


def into_tap(view, tap, port):
    """A datagram that comes in by a tap, and is read at once."""
    view.mark()
    with reader(None, "10.77.0.1", port) as s:
        with on_cpu(OTHER):
            tap.receive(datagram("10.77.0.2", 999, "10.77.0.1", port, b"x" * 64))
        before = time.monotonic_ns()
        expect("bytes read", len(s.recv(100)), 64)
        return time.monotonic_ns() - before


def held_by_gro(arrivals):
    with Tap(Tap.NAPI) as tap, gro_waits(None, "tap0", HELD):
        into_tap(arrivals, tap, 5800)
    packet, = arrivals.exactly(1, of_port(5800))
    expect("its way", way(packet), [("napi_gro_receive", None), ("__netif_receive_skb", "gro"), ("ip_rcv", "link"),
                                    ("udp_unicast_rcv_skb", "input"), ("__skb_recv_udp", "socket")])
    expect("devices", [hop.get("dev") for hop in packet["hops"]], ["tap0"] * 3 + [None] * 2)
    expect("end and len", (packet["end"], packet["len"]), ("read", 64))
    check_held(packet, "gro", HELD)


@test
def gro_holds_a_datagram(arrivals):
    quietly(lambda: held_by_gro(arrivals))


def held_by_gro_of_veth(arrivals):
    with reader("web", WEB4, 5801) as s:
        arrivals.mark()
        send("client", "udp-send", WEB4, 5801)
        s.recv(100)
    packet, = arrivals.exactly(1, of_port(5801))
    expect("dir, end, partial", [packet[k] for k in ("dir", "end", "partial")], ["loc", "read", False])
    expect("the way through the container's veth", way(packet)[-6:],
           [("dev_hard_start_xmit", "qdisc"), ("napi_gro_receive", "napi"), ("__netif_receive_skb", "gro"),
            ("ip_rcv", "link"), ("udp_unicast_rcv_skb", "input"), ("__skb_recv_udp", "socket")])
    expect("where", [packet["slowest"][k] for k in ("dev", "netns")], ["eth0", inum("web")])
    check_held(packet, "gro", HELD)


@test
def gro_of_a_container_holds_a_datagram(arrivals):
    if KERNEL < (5, 13):
        raise Skip("veth has no GRO without XDP before 5.13")
    ethtool("web", "eth0", ETHTOOL_SGRO, 1)
    ethtool(None, "vethc", ETHTOOL_STSO, 0)
    try:
        with gro_waits("web", "eth0", HELD):
            quietly(lambda: held_by_gro_of_veth(arrivals))
    finally:
        ethtool(None, "vethc", ETHTOOL_STSO, 1)
        ethtool("web", "eth0", ETHTOOL_SGRO, 0)


def held_by_rps(arrivals, way_in, port):
    with Tap(way_in) as tap, to_cpu(None, "tap0", HOLDER):
        with holding(HOLDER, HELD):
            into_tap(arrivals, tap, port)
    packet, = arrivals.exactly(1, of_port(port))
    first = TO_STACK[way_in]
    expect("its way", way(packet),
           [(func, None) for func in first] + [("enqueue_to_backlog", "gro" if first else None)] +
           [("__netif_receive_skb", "rps"), ("ip_rcv", "link"), ("udp_unicast_rcv_skb", "input"),
            ("__skb_recv_udp", "socket")])
    cpus = [hop["cpu"] for hop in packet["hops"]]
    expect("CPUs, before and behind RPS", (set(cpus[:len(first) + 1]), set(cpus[len(first) + 1:-1])),
           ({OTHER}, {HOLDER}))
    check_held(packet, "rps", HELD, "enqueue_to_backlog")


@test
def rps_to_a_busy_cpu(arrivals):
    for i, way_in in enumerate(TO_STACK):
        quietly(lambda way_in=way_in, port=5810 + i: held_by_rps(arrivals, way_in, port))


def not_held(arrivals):
    for i, way_in in enumerate(TO_STACK):
        with Tap(way_in) as tap:
            took = into_tap(arrivals, tap, 5820 + i)
        arrivals.fence()
        if arrivals.packets(of_port(5820 + i)):
            expect_that("a line for a datagram that was not held", took >= OTHERS,
                        brief(arrivals.packets(of_port(5820 + i))))
            raise Noisy(f"{took / MS:.1f} ms")


@test
def neither_gro_nor_rps(arrivals):
    quietly(lambda: not_held(arrivals))


@contextlib.contextmanager
def interrupts_on(cpu):
    """The NIC's, so that its NAPI runs there."""
    nic_name = os.path.basename(os.path.realpath("/sys/class/net/eth0/device"))
    with open("/proc/interrupts", encoding="ascii") as f:
        lines = [line for line in f if re.search(rf"\b{nic_name}\b", line)]
    numbers = [line.split(":")[0].strip() for line in lines]
    expect_that(f"interrupts of {nic_name}", numbers, lines)
    for number in numbers:
        with open(f"/proc/irq/{number}/smp_affinity", "w", encoding="ascii") as f:
            f.write(f"{1 << cpu:x}")
    yield


def held_on_its_way_from_the_nic(arrivals):
    arrivals.mark()
    with socket.create_server((OURS, PORT)) as server, to_cpu(None, "eth0", HOLDER):
        with holding(HOLDER, HELD):
            answer = begin(trips=0, size=64, reply=64)
            server.settimeout(20)
            connection, _ = server.accept()
            answer_at(answer)
            connection.close()
        syn = arrivals.await_packets(1, lambda p: p["dport"] == PORT and p["flags"] == "S")[0]
    expect("src, dst, dir, end, partial", [syn[k] for k in ("src", "dst", "dir", "end", "partial")],
           [CLIENT, OURS, "rcv", "delivered", False])
    expect("its way", way(syn),
           [("napi_gro_receive", None), ("enqueue_to_backlog", "gro"), ("__netif_receive_skb", "rps"),
            ("ip_rcv", "link"), ("tcp_v4_rcv", "input"), ("tcp_rcv_state_process", "tcplock")])
    expect("where", [syn["slowest"][k] for k in ("dev", "netns")], ["eth0", HOST_NS])
    check_held(syn, "rps", HELD, "enqueue_to_backlog")


@test
def rps_of_a_nic_to_a_busy_cpu(arrivals):
    with nic(), interrupts_on(OTHER):
        quietly(lambda: held_on_its_way_from_the_nic(arrivals))


FEW = {"napi_gro_receive_entry", "napi_gro_frags_entry", "netif_receive_skb_entry", "netif_receive_skb_list_entry",
       "enqueue_to_backlog", "netif_rx", "netif_receive_skb"}


_sports = itertools.count(999)


def seen_with_few_hops(tools):
    # Only the port differs from one time to the next. No hop here tells a packet's end, so
    # its record is there when its skb is used again, and must not be taken for the new one's.
    sport = next(_sports)
    payload = b"few hops" * 8
    with Tap(Tap.NAPI) as tap, to_cpu(None, "tap0", HOLDER), holding(HOLDER, HELD), \
            reader(None, "10.77.0.1", 5830) as s, on_cpu(OTHER):
        tap.receive(datagram("10.77.0.2", sport, "10.77.0.1", 5830, payload))
        tap.receive(datagram("10.77.0.2", sport, "10.77.0.1", 5831, payload))
        s.recv(100)
    for tool in tools:
        # no hop behind it tells its end, so a sweep finds it
        packet, = tool.await_packets(1, lambda p: p["sport"] == sport)
        expect("port and end", (packet["dport"], packet["end"]), (5830, "unknown"))
        expect("its way", way(packet), [("napi_gro_receive", None), ("enqueue_to_backlog", "gro"),
                                        ("__netif_receive_skb", "rps")])
        check_held(packet, "rps", HELD)


@test
def few_hooks_do_for_the_stage_rps():
    few = ["-j", "-v", "-u", "-d", "5830", "-l", "rps=15ms"]
    with tracing(few, [*few, "--attach=kprobe"]) as tools:
        quietly(lambda: seen_with_few_hops(tools))
        quietly(lambda: seen_with_few_hops(tools))
        for tool, how in zip(tools, ("fentry", "kprobe")):
            hits = tool.ask_hits()
            expect("hops attached", set(hits), FEW)
            expect("how", hits["enqueue_to_backlog"][1], how)
