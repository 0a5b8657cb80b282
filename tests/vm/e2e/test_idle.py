# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""A quiet host: every hop is attached and hit, and nothing is printed."""
import contextlib

from .harness import test
from .lab import KERNEL, WEB4, WEB6, Passed
from .proc import MS, Traffic, expect, expect_that, wait_for
from .tool import brief, end_time

TRIPS = 20
FAST = 10_000 if KERNEL == (6, 1) else 3_000

TRACEPOINTS = "netif_receive_skb netif_rx net_dev_queue net_dev_start_xmit kfree_skb".split()
FUNCTIONS = """ip_rcv_core ip6_rcv_core tcp_v4_rcv tcp_v6_rcv tcp_rcv_state_process
tcp_rcv_established __udp_enqueue_schedule_skb skb_consume_udp __ip_queue_xmit ip6_xmit
ip_build_and_send_pkt ip_send_skb ip6_send_skb ip_finish_output2 ip6_finish_output2""".split()

# Hits by one packet to the container and by one back (design §3 is their sum).
THERE = {"netif_receive_skb": 2, "netif_rx": 2, "rcv": 2, "output": 2,
         "net_dev_queue": 3, "net_dev_start_xmit": 3}
BACK = {"netif_receive_skb": 3, "netif_rx": 2, "br_handle_frame_finish": 1, "rcv": 2, "output": 2,
        "net_dev_queue": 2, "net_dev_start_xmit": 2}
NAMES = {4: {"rcv": "ip_rcv_core", "output": "ip_finish_output2"},
         6: {"rcv": "ip6_rcv_core", "output": "ip6_finish_output2"}}
ENDS = {("tcp", 4): ["__ip_queue_xmit", "tcp_v4_rcv", "tcp_rcv_established"],
        ("tcp", 6): ["ip6_xmit", "tcp_v6_rcv", "tcp_rcv_established"],
        ("udp", 4): ["ip_send_skb", "__udp_enqueue_schedule_skb", "skb_consume_udp"],
        ("udp", 6): ["ip6_send_skb", "__udp_enqueue_schedule_skb", "skb_consume_udp"]}


@contextlib.contextmanager
def pair(proto, family, n):
    """A server in the container and a client that has warmed up and waits."""
    address, port = {4: WEB4, 6: WEB6}[family], 5100
    with Traffic("web", f"{proto}-echo", address, port), \
            Traffic("client", f"{proto}-rr", address, port, "-n", n, "--wait", "--hold",
                    "--log-over", 100, *(["--warmup", 20] if proto == "tcp" else [])) as client:
        yield client


@test
def all_hops_are_attached(idle):
    hits = idle.tool.ask_hits()
    how = {target: how for target, (_, how, _) in hits.items()}
    expected = dict.fromkeys(TRACEPOINTS, "tp_btf") | dict.fromkeys(FUNCTIONS, "fentry")
    expected |= {"br_handle_frame_finish": "kprobe", "__skb_gso_segment": "fexit"}
    if KERNEL < (6, 6):  # its seventh argument is too much for an older trampoline
        expected["ip6_xmit"] = "kprobe"
    if KERNEL >= (7, 0):  # it preempts tasks in the midst of an fentry program
        expected["skb_consume_udp"] = "kprobe"
    expect("how each hop is attached", how, expected)
    expect("lines 'not attached'", [l for l in idle.tool.err.all if "not attached" in l], [])


def check_hits(idle, proto, family):
    with pair(proto, family, TRIPS) as client:
        wait_for("the warm-up's last packet arrived", Passed().now)
        passed = Passed()
        before, missed = idle.tool.ask_hits(), idle.tool.ask_counts()["missed"]
        client.go()
        client.done()
        there, back = passed.settled()
        after = idle.tool.ask_hits()
        missed = idle.tool.ask_counts()["missed"] - missed

    # TCP: the responses acknowledge the requests; what may come on top is the ACK of the
    # last response, and a delayed ACK where the machine was slow.
    most = TRIPS + (4 if proto == "tcp" else 0)
    expect_that(f"packets there and back by the devices' counters: {TRIPS} to {most}",
                TRIPS <= there <= most and TRIPS <= back <= most, (there, back))
    expect_that("program runs that the kernel skipped: at most 2", missed <= 2, missed)

    expected = dict.fromkeys(before, 0)
    for per_packet, packets in ((THERE, there), (BACK, back)):
        for name, n in per_packet.items():
            expected[NAMES[family].get(name, name)] += n * packets
    for name in ENDS[proto, family]:
        expected[name] += there + back
    seen = {name: after[name][2] - before[name][2] for name in before}
    # netlink, unix sockets and others drop skbs too
    del seen["kfree_skb"], expected["kfree_skb"]
    wrong = {name: (seen[name], n) for name, n in expected.items() if not n - missed <= seen[name] <= n}
    expect(f"hops with wrong hits (seen, expected; {there} packets there, {back} back)", wrong, {})


@test
def hits_of_20_tcp_round_trips(idle):
    check_hits(idle, "tcp", 4)


@test
def hits_of_20_udp_round_trips(idle):
    check_hits(idle, "udp", 4)


@test
def hits_of_20_tcp_round_trips_ipv6(idle):
    check_hits(idle, "tcp", 6)


@test
def hits_of_20_udp_round_trips_ipv6(idle):
    check_hits(idle, "udp", 6)


def check_fast(idle, proto):
    with pair(proto, 4, FAST) as client:
        wait_for("the warm-up's last packet arrived", Passed().now)
        idle.mark()
        passed, before = Passed(), idle.tool.ask_counts()
        client.go()
        client.done(200)
        there, back = passed.settled()
        after = idle.tool.ask_counts()
    grown = {name: after[name] - before[name] for name in after}
    # Trips that took 100 ms by the client's own clock: there this machine stood still, and
    # a line may be true. There is no other.
    stalls = client.events("trip")
    false = [p for p in idle.packets() if not any(begin <= p["mono_ns"] and end_time(p) <= end + MS
                                                  for _, begin, end in stalls)]
    expect_that(f"no line but inside of {len(stalls)} trips of 100 ms and more", not false, brief(false))
    expect_that("the machine stood still now and then at the most", len(stalls) <= FAST / 200, len(stalls))
    expect_that("slow as printed", grown["slow"] == len(idle.finals()) <= 2 * len(stalls), grown)
    expect("printed, lost, evicted, unparsed",
           [grown[name] for name in ("printed", "lost", "evicted", "unparsed")], [grown["slow"], 0, 0, 0])
    # One journey a packet, because all of its way lies in this kernel. UDP: a request and
    # a response a trip. TCP: the same and some ACKs; how many, the device has counted. A
    # hit that the kernel skipped may part a journey in two, and nothing else may.
    expect_that(f"packets, by the devices' counters, at least {FAST} each way",
                min(there, back) >= FAST, (there, back))
    expect_that(f"matched: {there + back}, and {grown['missed']} more at most",
                there + back <= grown["matched"] <= there + back + grown["missed"], grown["matched"])


@test
def fast_tcp_round_trips_print_nothing(idle):
    check_fast(idle, "tcp")


@test
def fast_udp_round_trips_print_nothing(idle):
    check_fast(idle, "udp")
