# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
The second article with its NIC: a client outside the host, a virtio NIC, DNAT to the
container. What comes in is RCV, what goes out is SND, what goes through is FWD.
"""
import contextlib
import itertools
import json
import os

from .harness import Noisy, Skip, quietly, test
from .lab import HOST_NS, WEB4, inum, netem, nft
from .proc import MS, Traffic, expect, expect_that, run, wait_for
from .test_tcp import BACK, BACK_MS, NEAR, THERE, THERE_MS, check_held, check_way, delays
from .tool import brief

FOLDER = os.environ.get("E2E_OUTSIDE")  # where the client outside is asked
OURS, CLIENT = "10.0.2.15", "10.0.2.2"
PORT = 80

# the host's part of the way, and the NIC's
RCV = [("__netif_receive_skb", "eth0", None, None)] + THERE[6:]
RCV[1] = ("ip_rcv", "eth0", None, "link")
SND = BACK[:9] + [(func, "eth0", None, stage) for func, _, _, stage in BACK[9:12]]

_numbers = itertools.count()


def begin(**what):
    """Has the client outside begin something; returns where its answer will be."""
    number = next(_numbers)
    path = os.path.join(FOLDER, f"ask.{number}")
    with open(path + ".new", "w", encoding="utf-8") as f:
        json.dump(what, f)
    os.rename(path + ".new", path)
    return os.path.join(FOLDER, f"answer.{number}")


def answer_at(path):
    """The client's times in ms: of its connect, of each trip."""
    wait_for("the answer of the client outside", lambda: os.path.exists(path), 60)
    with open(path, encoding="utf-8") as f:
        times = json.load(f)
    expect("an error outside", times.get("error"), None)
    return times["connected"] * 1000, [trip * 1000 for trip in times["trips"]]


@contextlib.contextmanager
def nic():
    """The NIC is up only here, so that nothing comes in between in other tests."""
    if not FOLDER:
        raise Skip("it needs a NIC and somebody outside: run tests/vm/run-e2e")
    run("ip", "addr", "add", f"{OURS}/24", "dev", "eth0")
    run("ip", "link", "set", "eth0", "up")
    try:
        yield
    finally:
        run("ip", "link", "set", "eth0", "down")
        run("ip", "addr", "del", f"{OURS}/24", "dev", "eth0")


@contextlib.contextmanager
def container():
    with nic(), \
            nft(None, "add chain inet e2e pre { type nat hook prerouting priority -100; };"
                      f"add rule inet e2e pre iifname eth0 tcp dport {PORT} dnat ip to {WEB4}:{PORT}"), \
            Traffic("web", "tcp-echo", WEB4, PORT, "--log") as server:
        yield server


def places(expected):
    return [(func, dev, inum(netns), stage) for func, dev, netns, stage in expected]


def state(expected, function):
    return places([(function if func == "STATE" else func, *rest) for func, *rest in expected])


def of_our_port(packet):
    return packet["proto"] == "tcp" and PORT in (packet["sport"], packet["dport"])


def converse(slow, **what):
    """The packets of one connection, and by how many ms the client saw it slower than the delays."""
    slow.mark()
    connected, trips = answer_at(begin(**what))
    syn = slow.await_packets(1, lambda p: p["dport"] == PORT and p["flags"] == "S")[0]

    def ours(packet):
        return of_our_port(packet) and syn["sport"] in (packet["sport"], packet["dport"])

    # until its end, the last ACK that comes in
    fin = slow.await_packets(1, lambda p: ours(p) and p["sport"] == PORT and "F" in p["flags"])[0]
    slow.await_packets(1, lambda p: ours(p) and p["dport"] == PORT and p["mono_ns"] > fin["mono_ns"])
    slow.fence()
    packets = sorted(slow.finals(ours), key=lambda p: p["mono_ns"])
    return packets, max([connected, *trips]) - BACK_MS - THERE_MS


def check_conversation(slow, server):
    got = len(server.events("got"))
    packets, noise = converse(slow, trips=2, size=64, reply=64)
    expect("requests that the container has read", len(server.events("got")) - got, 2)
    again = [p for p in packets if p.get("retrans")]
    if again:
        raise Noisy(brief(again))
    there = [p for p in packets if p["dport"] == PORT]
    back = [p for p in packets if p["sport"] == PORT]
    for packet in there:
        expect("ends of " + brief([packet]), [packet[k] for k in ("src", "dst", "dir", "end", "partial")],
               [CLIENT, OURS, "rcv", "delivered", False])
        expect("nat", packet.get("nat"), {"src": CLIENT, "sport": packet["sport"], "dst": WEB4, "dport": PORT})
    for packet in back:
        expect("ends of " + brief([packet]), [packet[k] for k in ("src", "dst", "dir", "end", "partial")],
               [WEB4, CLIENT, "snd", "sent", False])
        expect("nat", packet.get("nat"), {"src": OURS, "sport": PORT, "dst": CLIENT, "dport": packet["dport"]})
        check_way(packet, places(SND))
    expect("the first packets' flags", [p["flags"] for p in (there[0], back[0])], ["S", "S."])
    check_way(there[0], state(RCV, "tcp_rcv_state_process"))
    requests, responses = [p for p in there if p["len"]], [p for p in back if p["len"]]
    expect("requests and responses", (len(requests), len(responses)), (2, 2))
    for request, response, (_, seen) in zip(requests, responses, server.events("got")[got:]):
        check_way(request, state(RCV, "tcp_rcv_established"))
        expect_that("it arrived when the server read it", request["mono_ns"] + request["total_ns"] <= seen + MS // 10,
                    (request, seen))
        expect("segs", (request["segs"], response["segs"]), (1, 1))
    for packet in there:
        check_held(packet, "vethc", HOST_NS, THERE_MS, noise < 10)
    for packet in back:
        check_held(packet, "eth0", inum("web"), BACK_MS, noise < 10)


@test
def nic_to_container_and_back(slow):
    with container() as server, delays():
        quietly(lambda: check_conversation(slow, server))


BIG = 40_000


def check_big_response(slow):
    packets, _ = converse(slow, trips=1, size=64, reply=BIG)
    back = [p for p in packets if p["sport"] == PORT and p["len"]]
    first = [p for p in packets if p["flags"] == "S."][0]["seq"] + 1
    for packet in back:
        expect("ends of " + brief([packet]), [packet[k] for k in ("dir", "end", "partial")], ["snd", "sent", False])
        check_way(packet, places(SND))
        expect("range", packet["seq_end"] - packet["seq"] & 0xffffffff, packet["len"])
        mss = 1460
        expect("segs of " + str(packet["len"]), packet["segs"] in (-(-packet["len"] // mss),
                                                                  -(-packet["len"] // (mss - 12))), True)
    # together they are the response, and each byte is in one range
    ranges = sorted((p["seq"] - first & 0xffffffff, p["seq_end"] - first & 0xffffffff) for p in back)
    expect("where the ranges begin", [a for a, _ in ranges], [0] + [b for _, b in ranges[:-1]])
    expect("where the last one ends", ranges[-1][1], BIG)
    expect_that("some were cut below the qdisc", any(p["segs"] > 1 for p in back), brief(back))
    for packet in back:
        check_held(packet, "eth0", inum("web"), BACK_MS, False)


@test
def nic_big_response_is_cut_below_the_qdisc(slow):
    with container(), delays():
        quietly(lambda: check_big_response(slow))


def check_forwarded(slow):
    slow.mark()
    # its SYN goes on through the NIC, to a host that is not there
    answer = begin(trips=0, size=64, reply=64)
    packet = slow.await_packets(1, lambda p: of_our_port(p) and p["end"] != "waiting")[0]
    expect("addresses", [packet[k] for k in ("src", "dst", "dport", "flags")], [CLIENT, OURS, PORT, "S"])
    expect("nat", packet["nat"]["dst"], "10.0.2.99")
    expect("dir, end, partial", [packet[k] for k in ("dir", "end", "partial")], ["fwd", "sent", False])
    check_way(packet, places([("__netif_receive_skb", "eth0", None, None), ("ip_rcv", "eth0", None, "link"),
                              ("ip_finish_output2", "eth0", None, "forward"),
                              ("__dev_queue_xmit", "eth0", None, "neigh"),
                              ("dev_hard_start_xmit", "eth0", None, "qdisc")]))
    expect("slowest", [packet["slowest"][k] for k in ("stage", "dev", "netns")], ["qdisc", "eth0", HOST_NS])
    expect_that("80 ms at least", packet["total_ns"] >= 80 * MS, brief([packet]))
    # QEMU has connected the client itself, so it does not notice
    answer_at(answer)
    if packet["total_ns"] > 80 * MS + NEAR:
        raise Noisy(brief([packet]))


@test
def nic_to_nic_is_forwarded(slow):
    with nic(), nft(None, "add chain inet e2e pre { type nat hook prerouting priority -100; };"
                          f"add rule inet e2e pre iifname eth0 tcp dport {PORT} dnat ip to 10.0.2.99:{PORT}"):
        run("ip", "neigh", "replace", "10.0.2.99", "dev", "eth0", "lladdr", "02:00:00:00:00:63", "nud", "permanent")
        try:
            with netem(None, "eth0", "delay", "80ms"):
                quietly(lambda: check_forwarded(slow))
        finally:
            run("ip", "neigh", "del", "10.0.2.99", "dev", "eth0")
