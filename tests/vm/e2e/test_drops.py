# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
-l drop=0 prints each packet that is dropped, slow or not, with where and why, and no
other. The names of reasons and functions are those of the running kernel.
"""
import contextlib
import itertools
import socket
import time

from . import lab
from .harness import quietly, test
from .lab import CLIENT4, CLIENT6, HOST4, WEB4, WEB6, has_drop_reasons, inum, netem, nft, socket_in, tc
from .proc import MS, expect, expect_that, run, send, wait_for
from .tool import brief, tracing

SO_RCVBUFFORCE = 33
ports = itertools.count(7400, 10)  # each test has ten
# what a qdisc does not take is freed as a list; which function of the kernel's shows is its compiler's choice
FREES_LIST = ("kfree_skb_list", "kfree_skb_list_reason", "__dev_queue_xmit", "__tcf_kfree_skb_list")
PATH = ["ip_queue_xmit", "ip_finish_output2", "__dev_queue_xmit", "dev_hard_start_xmit", "netif_rx",
        "__netif_receive_skb", "ip_rcv"]
INTO_WEB = PATH + ["ip_finish_output2", "__dev_queue_xmit", "dev_hard_start_xmit"] + PATH[2:]
IPV6 = {"ip_finish_output2": "ip6_finish_output2", "ip_rcv": "ipv6_rcv", "tcp_v4_rcv": "tcp_v6_rcv"}
BOTH = ((WEB4, CLIENT4, {}), (WEB6, CLIENT6, IPV6))


def of_ports(base):
    return lambda packet: any(base <= packet[k] < base + 10 for k in ("dport", "sport"))


def check_drop(packet, reason, functions, hops, where):
    """functions: where the kernels differ; hops: those before the drop; where: device and netns."""
    expect(f"end and reason of {brief([packet])}", [packet.get(k) for k in ("end", "drop_reason")],
           ["dropped", reason if has_drop_reasons() else None])
    expect_that(f"the function is one of {functions}", packet.get("drop_at") in functions, packet.get("drop_at"))
    expect("partial", packet["partial"], False)
    expect("hops", [hop["func"] for hop in packet["hops"]], [*hops, "kfree_skb"])
    last = packet["hops"][-1]
    expect("the drop's stage, device, netns", [last["stage"], last.get("dev"), last["netns"]],
           ["drop", where[0], inum(where[1])])


def kind(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


@contextlib.contextmanager
def receiver(address, port, rcvbuf=None):
    """A UDP socket in the container that nobody reads yet."""
    with socket_in("web", kind(address), socket.SOCK_DGRAM) as s:
        if rcvbuf:
            s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, rcvbuf)
        s.bind((address, port))
        s.settimeout(10)
        yield s


def read_all(s, count):
    for _ in range(count):
        s.recv(65536)


FILTER = "add chain inet e2e f { type filter hook forward priority 0; };"


def drop_by_netfilter(drops, address, names):
    base = next(ports)
    drops.mark()
    with nft(None, FILTER + f"add rule inet e2e f udp dport {base} counter drop"), receiver(address, base + 1) as s:
        send("client", "udp-send", address, base, "-n", 3)
        send("client", "udp-send", address, base + 1, "-n", 3)
        read_all(s, 3)
        wait_for("the rule has dropped them", lambda: lab.drops() == 3)
        packets = drops.exactly(3, of_ports(base))
    for packet in packets:
        expect("dport", packet["dport"], base)
        check_drop(packet, "NETFILTER_DROP", ("nft_do_chain", "nf_hook_slow"), [names.get(h, h) for h in PATH],
                   ("host0", None))


@test
def drops_by_netfilter(drops):
    for address, _, names in BOTH:
        drop_by_netfilter(drops, address, names)


def drop_without_socket(drops, address, names):
    base = next(ports)
    drops.mark()
    send("client", "udp-send", address, base)
    with socket_in("client", kind(address), socket.SOCK_STREAM) as s:
        try:
            s.connect((address, base + 1))
        except ConnectionRefusedError:
            pass  # so its SYN was dropped, and the reset that answers it was not
    udp, tcp = sorted(drops.exactly(2, of_ports(base)), key=lambda p: p["dport"])
    hops = [names.get(h, h) for h in INTO_WEB]
    check_drop(udp, "NO_SOCKET", ("__udp6_lib_rcv", "udpv6_rcv") if names else ("__udp4_lib_rcv", "udp_rcv"), hops,
               ("eth0", "web"))
    tcp_rcv = names.get("tcp_v4_rcv", "tcp_v4_rcv")
    check_drop(tcp, "NO_SOCKET", (tcp_rcv,), [*hops, tcp_rcv], ("eth0", "web"))
    expect("flags", tcp["flags"], "S")


@test
def drops_without_a_socket(drops):
    for address, _, names in BOTH:
        drop_without_socket(drops, address, names)


def drop_by_full_socket(drops, address, names):
    base = next(ports)
    drops.mark()
    with receiver(address, base, 1) as s:
        send("client", "udp-send", address, base, "-n", 8, "--size", 1400)
        drops.await_packets(1, of_ports(base))
        drops.fence()
        packets = drops.packets(of_ports(base))
        read_all(s, 8 - len(packets))
        drops.exactly(len(packets), of_ports(base))
    for packet in packets:
        check_drop(packet, "SOCKET_RCVBUFF", ("udpv6_queue_rcv_one_skb",) if names else ("udp_queue_rcv_one_skb",),
                   [*(names.get(h, h) for h in INTO_WEB), "udp_unicast_rcv_skb"], (None, "web"))


@test
def drops_by_a_full_socket(drops):
    for address, _, names in BOTH:
        drop_by_full_socket(drops, address, names)


def drop_by_full_qdisc(drops, address, names):
    base = next(ports)
    drops.mark()
    tc("client", "qdisc", "replace", "dev", "cli0", "root", "tbf", "rate", "1mbit", "burst", "1600", "limit", "3200")
    try:
        with receiver(address, base) as s:
            send("client", "udp-send", address, base, "-n", 8, "--size", 1400)
            drops.await_packets(1, of_ports(base))
            drops.fence()
            packets = drops.packets(of_ports(base))
            # the others come through
            read_all(s, 8 - len(packets))
            drops.exactly(len(packets), of_ports(base))
    finally:
        tc("client", "qdisc", "del", "dev", "cli0", "root")
    for packet in packets:
        check_drop(packet, "QDISC_DROP", FREES_LIST,
                   [names.get(h, h) for h in PATH[:3]], ("cli0", "client"))


@test
def drops_by_a_full_qdisc(drops):
    run("modprobe", "sch_tbf")
    for address, _, names in BOTH:
        drop_by_full_qdisc(drops, address, names)


@test
def drops_that_a_filter_and_a_threshold_let_through():
    base = next(ports)
    with tracing(["-j", "-p", base, "-l", "drop=0"], ["-j", "-l", "drop=100ms"]) as (ours, late), \
            nft(None, FILTER + f"add rule inet e2e f udp dport {{ {base}, {base + 1} }} counter drop;"
                      "add chain inet e2e pre { type nat hook prerouting priority -100; };"
                      f"add rule inet e2e pre udp dport {base + 5} dnat ip to {WEB4}:{base};"
                      f"add rule inet e2e pre udp dport {base + 6} dnat ip to {WEB4}:{base + 1}"):
        send("client", "udp-send", WEB4, base, "-n", 2)
        send("client", "udp-send", WEB4, base + 1, "-n", 2)
        # these are called so only where they are dropped
        send("client", "udp-send", HOST4, base + 5, "--size", 32)
        send("client", "udp-send", HOST4, base + 6, "--size", 32)
        wait_for("the rule has dropped them", lambda: lab.drops() == 6)
        # this one lies in a qdisc for a while until that is taken away
        with netem("client", "cli0", "delay", "60s"):
            sent, = send("client", "udp-send", WEB4, base, "--size", 33).events("sent")
            time.sleep(max(0, sent[2] + 150 * MS - time.monotonic_ns()) / 1e9)
        ours.await_packets(4, lambda p: p["end"] == "dropped")
        late.await_packets(1, lambda p: p["end"] == "dropped")
    expect("drops of -p and -l drop=0", [(p["dport"], p["len"]) for p in ours.finals()],
           [(base, 64), (base, 64), (base, 32), (base, 33)])
    packet = ours.finals()[2]
    expect("its tuple, where it was", [packet["src"], packet["dst"], packet["hops"][0].get("dev")],
           [CLIENT4, WEB4, "host0"])
    expect("partial, hops", [packet["partial"], [hop["func"] for hop in packet["hops"]]], [True, ["kfree_skb"]])
    packet, = late.finals()
    expect("the late drop's len and end", [packet["len"], packet["end"]], [33, "dropped"])
    expect("slowest", [packet["slowest"][k] for k in ("stage", "from", "to", "dev", "netns")],
           ["drop", "__dev_queue_xmit", "kfree_skb", "cli0", inum("client")])
    expect_that("150 ms at least", packet["slowest"]["ns"] >= 150 * MS, brief([packet]))
