# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Each way by which a packet comes up: something holds it in one place, for a time that is
known, and exactly that stage shows it. What comes before the stack is in test_arrival.
"""
import contextlib
import os
import socket
import threading
import time

from .harness import Noisy, Skip, quietly, test
from .holds import HOLDER, OTHER, AbsentPage, Tap, busy_task, datagram, holding, on_cpu
from .lab import ETHTOOL_SGRO, ETHTOOL_STSO, KERNEL, WEB4, ethtool, inum, netem, within, without_vlan_offload
from .proc import MS, Traffic, expect, expect_that, run, send, wait_for
from .test_tcp import NEAR, THERE, check_way
from .tool import Slowpkt, brief

HELD = 120  # ms
OTHERS = 15 * MS


def of_port(port):
    return lambda packet: port in (packet["sport"], packet["dport"])


def places(hops):
    return [(func, dev, inum(netns), stage) for func, dev, netns, stage in hops]


def udp_end(dev, netns, func="ip_rcv"):
    """From the device where it is received to its reader."""
    return [(func, dev, netns, "link"), ("udp_unicast_rcv_skb", None, netns, "input"),
            ("__skb_recv_udp", None, netns, "socket")]


def down(dev, netns, func="ip_finish_output2"):
    """From a socket down to the driver."""
    return [("ip_queue_xmit", None, netns, None), (func, dev, netns, "output"),
            ("__dev_queue_xmit", dev, netns, "neigh"), ("dev_hard_start_xmit", dev, netns, "qdisc")]


def below(dev, netns):
    """From a device through the one beneath it."""
    return [("__dev_queue_xmit", dev, netns, "device"), ("dev_hard_start_xmit", dev, netns, "qdisc")]


def backlog(dev, netns):
    """Up from a veth, or from lo."""
    return [("netif_rx", dev, netns, "device"), ("__netif_receive_skb", dev, netns, "backlog")]


def check_held(packet, way, stage, dev, netns, ms=HELD):
    """It went this way, was held in this stage for so long, and by nothing else for any time worth a word."""
    check_way(packet, places(way))
    slowest = packet["slowest"]
    expect(f"what held {brief([packet])}", [slowest[k] for k in ("stage", "netns")] + [slowest.get("dev")],
           [stage, inum(netns), dev])
    times = [hop["at_ns"] for hop in packet["hops"]]
    waits = sorted(b - a for a, b in zip(times, times[1:]))
    expect_that(f"held {ms} ms at least", waits[-1] >= ms * MS, brief([packet]))
    if waits[-1] > ms * MS + NEAR or max(waits[:-1], default=0) >= OTHERS:
        raise Noisy(brief([packet]))


def check_whole(packet, end="read", direction="loc"):
    expect("partial, truncated, end, dir of " + brief([packet]),
           [packet[k] for k in ("partial", "truncated", "end", "dir")], [False, False, end, direction])


def sent(view, netns, address, port, reader_netns):
    """One datagram that a reader takes at once; the packet that is printed of it."""
    view.mark()
    with Traffic(reader_netns, "udp-read", address, port):
        send(netns, "udp-send", address, port)
        return view.exactly(1, of_port(port))[0]


# The backlog, and NAPI

LOOPBACK = [("127.0.0.1", "ip_finish_output2", "ip_rcv"), ("::1", "ip6_finish_output2", "ipv6_rcv")]


def through_loopback(slow, address, output, receive):
    with on_cpu(HOLDER), holding(HOLDER, HELD):
        packet = sent_unfenced(slow, None, address, 5900, None)
    check_whole(packet)
    check_held(packet, down("lo", None, output) + backlog("lo", None) + udp_end("lo", None, receive),
               "backlog", "lo", None)


def sent_unfenced(view, netns, address, port, reader_netns):
    """The same while a CPU is held: a fence would be held there, too."""
    view.mark()
    with Traffic(reader_netns, "udp-read", address, port) as reader:
        send(netns, "udp-send", address, port)
        reader.done()
        return view.await_packets(1, lambda p: of_port(port)(p) and p["end"] != "waiting")[0]


@test
def backlog_of_a_busy_cpu_on_loopback(slow):
    for address, output, receive in LOOPBACK:
        quietly(lambda way=(address, output, receive): through_loopback(slow, *way))


def through_veth(slow):
    with on_cpu(HOLDER), holding(HOLDER, HELD):
        packet = sent_unfenced(slow, "client", "10.0.1.1", 5901, None)
    check_whole(packet)
    check_held(packet, down("cli0", "client") + backlog("host0", None) + udp_end("host0", None),
               "backlog", "host0", None)


@test
def backlog_of_a_busy_cpu(slow):
    quietly(lambda: through_veth(slow))


@contextlib.contextmanager
def napi_veth():
    """The container's end has GRO, and so NAPI."""
    if KERNEL < (5, 13):
        raise Skip("veth has no NAPI without XDP before 5.13")
    ethtool("web", "eth0", ETHTOOL_SGRO, 1)
    ethtool(None, "vethc", ETHTOOL_STSO, 0)
    try:
        yield
    finally:
        ethtool(None, "vethc", ETHTOOL_STSO, 1)
        ethtool("web", "eth0", ETHTOOL_SGRO, 0)


NAPI = down("docker0", None) + below("vethc", None) + [("__netif_receive_skb", "eth0", "web", "napi")] + \
    udp_end("eth0", "web")


def through_napi(slow):
    with on_cpu(HOLDER), holding(HOLDER, HELD):
        packet = sent_unfenced(slow, None, WEB4, 5902, "web")
    check_whole(packet)
    check_held(packet, NAPI, "napi", "vethc", None)


@test
def napi_on_a_busy_cpu(slow):
    with napi_veth():
        quietly(lambda: through_napi(slow))


def kthreads(name):
    """The kernel's threads whose names begin so."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", encoding="ascii", errors="replace") as f:
            if f.read().startswith(name):
                found.append(int(pid))
    return found


def through_threaded_napi(slow):
    slow.mark()
    with Traffic("web", "udp-read", WEB4, 5903) as reader, \
            Traffic(None, "udp-send", WEB4, 5903, "--wait") as sender:
        os.sched_setaffinity(sender.pid, {OTHER})
        with busy_task(HOLDER, HELD + 50) as end:
            sender.go()
            _, before, after = sender.await_events("sent", 1)[0]
            reader.done()
        packet, = slow.exactly(1, of_port(5903))
    check_whole(packet)
    if end - before < HELD * MS:
        raise Noisy(f"the task was busy only {(end - before) / MS:.1f} ms longer")
    received = [hop for hop in packet["hops"] if hop["stage"] == "napi"]
    expect("hops that end napi", len(received), 1)
    expect_that("NAPI's thread has run behind the busy task",
                packet["mono_ns"] + received[0]["at_ns"] >= end - MS, (packet, end))
    expect("CPU and thread", [received[0]["cpu"], received[0]["comm"][:9]], [HOLDER, "napi/eth0"])
    check_held(packet, NAPI, "napi", "vethc", None, (end - after) // MS)


@test
def threaded_napi_behind_a_busy_task(slow):
    if KERNEL < (5, 13):
        raise Skip("there is no threaded NAPI before 5.12, and veth has none without XDP before 5.13")
    threaded = "/sys/class/net/eth0/threaded"
    with napi_veth():
        run("ip", "netns", "exec", "web", "sh", "-c", f"echo 1 >{threaded}")
        try:
            # one for each queue
            for pid in wait_for("NAPI's threads", lambda: kthreads("napi/eth0")):
                os.sched_setaffinity(pid, {HOLDER})
            quietly(lambda: through_threaded_napi(slow))
        finally:
            run("ip", "netns", "exec", "web", "sh", "-c", f"echo 0 >{threaded}")


@test
def without_their_stage_gro_and_rps_cost_nothing(slow):
    # what the kernel says, not what the tool says
    with open("/sys/kernel/tracing/enabled_functions", encoding="ascii") as f:
        functions = {line.split()[0] for line in f if not line[0].isspace()}
    expect("programs at ip_rcv_core and at enqueue_to_backlog",
           ["ip_rcv_core" in functions, "enqueue_to_backlog" in functions], [True, False])


# Devices on other devices

MAC = {"host0": "02:00:00:00:01:01", "cli0": "02:00:00:00:01:02", "mv0": "02:00:00:00:01:77"}
ASIDE = "10.0.1.77"


@contextlib.contextmanager
def on_host0(kind, *how, mac):
    """A device on host0, in the netns aside, to which client speaks directly."""
    run("modprobe", kind)
    run("ip", "link", "add", "up0", *(["address", mac] if mac != MAC["host0"] else []), "link", "host0",
        "type", kind, *how)
    try:
        run("ip", "link", "set", "up0", "netns", "aside")
        run("ip", "-n", "aside", "addr", "add", f"{ASIDE}/24", "dev", "up0")
        run("ip", "-n", "aside", "link", "set", "up0", "up")
        run("ip", "-n", "aside", "neigh", "replace", "10.0.1.2", "dev", "up0", "lladdr", MAC["cli0"],
            "nud", "permanent")
        run("ip", "-n", "client", "neigh", "replace", ASIDE, "dev", "cli0", "lladdr", mac, "nud", "permanent")
        yield
    finally:
        run("ip", "-n", "client", "neigh", "del", ASIDE, "dev", "cli0")
        run("ip", "-n", "aside", "link", "del", "up0")


def there_and_back(slow, back):
    """A request that cli0 holds, and its response, that host0 holds."""
    slow.mark()
    with Traffic("aside", "udp-echo", ASIDE, 5910), Traffic("client", "udp-rr", ASIDE, 5910) as client:
        client.done()
        request, response = sorted(slow.exactly(2, of_port(5910)), key=lambda p: p["mono_ns"])
    check_whole(request)
    check_whole(response)
    check_held(request, down("cli0", "client") + backlog("host0", None) + udp_end("up0", "aside"),
               "qdisc", "cli0", "client")
    check_held(response, down("up0", "aside") + back + backlog("cli0", "client") + udp_end("cli0", "client"),
               "qdisc", "host0", None)


@contextlib.contextmanager
def both_held():
    with netem("client", "cli0", "delay", f"{HELD}ms"), netem(None, "host0", "delay", f"{HELD}ms"):
        yield


@test
def macvlan(slow):
    with on_host0("macvlan", "mode", "bridge", mac=MAC["mv0"]), both_held():
        quietly(lambda: there_and_back(slow, below("host0", None)))


@contextlib.contextmanager
def two_macvlans():
    """Two on host0, in the netns aside and client."""
    ends = [("aside", "up1", "02:00:00:00:88:01", "10.0.88.1"), ("client", "up2", "02:00:00:00:88:02", "10.0.88.2")]
    try:
        for (netns, dev, mac, address), (_, _, other_mac, other) in zip(ends, reversed(ends)):
            run("ip", "link", "add", dev, "address", mac, "link", "host0", "type", "macvlan", "mode", "bridge")
            run("ip", "link", "set", dev, "netns", netns)
            run("ip", "-n", netns, "addr", "add", f"{address}/24", "dev", dev)
            run("ip", "-n", netns, "link", "set", dev, "up")
            run("ip", "-n", netns, "neigh", "replace", other, "dev", dev, "lladdr", other_mac, "nud", "permanent")
        yield
    finally:
        for netns, dev, _, _ in ends:
            run("ip", "-n", netns, "link", "del", dev)


def between_macvlans(slow):
    packet = sent(slow, "aside", "10.0.88.2", 5911, "client")
    check_whole(packet)
    # the device beneath both receives it, and hands it to the other one
    check_held(packet, down("up1", "aside") + backlog("host0", None) + udp_end("up2", "client"),
               "qdisc", "up1", "aside")


@test
def macvlan_to_macvlan(slow):
    with two_macvlans(), netem("aside", "up1", "delay", f"{HELD}ms"):
        quietly(lambda: between_macvlans(slow))


@test
def ipvlan_l2(slow):
    with on_host0("ipvlan", "mode", "l2", mac=MAC["host0"]), both_held():
        quietly(lambda: there_and_back(slow, below("host0", None)))


@test
def ipvlan_l3(slow):
    """It routes what it sends in the netns of the device beneath it."""
    routed = [("ip_finish_output2", "host0", None, "other"), ("__dev_queue_xmit", "host0", None, "neigh"),
              ("dev_hard_start_xmit", "host0", None, "qdisc")]
    with on_host0("ipvlan", "mode", "l3", mac=MAC["host0"]), both_held():
        quietly(lambda: there_and_back(slow, routed))


@contextlib.contextmanager
def vlan():
    """VLAN 7 between client (10.0.7.2) and host (10.0.7.1)."""
    run("modprobe", "8021q")
    ends = [(["ip"], "host0", "10.0.7.1", "10.0.7.2", MAC["cli0"]),
            (["ip", "-n", "client"], "cli0", "10.0.7.2", "10.0.7.1", MAC["host0"])]
    try:
        for ip, dev, own, other, mac in ends:
            run(*ip, "link", "add", f"{dev}.7", "link", dev, "type", "vlan", "id", "7")
            run(*ip, "addr", "add", f"{own}/24", "dev", f"{dev}.7")
            run(*ip, "link", "set", f"{dev}.7", "up")
            run(*ip, "neigh", "replace", other, "dev", f"{dev}.7", "lladdr", mac, "nud", "permanent")
        yield
    finally:
        for ip, dev, *_ in ends:
            run(*ip, "link", "del", f"{dev}.7")


VLAN = down("cli0.7", "client") + below("cli0", "client") + backlog("host0", None) + udp_end("host0.7", None)


def through_vlan(slow):
    packet = sent(slow, "client", "10.0.7.1", 5920, None)
    check_whole(packet)
    check_held(packet, VLAN, "qdisc", "cli0", "client")


@test
def vlan_device(slow):
    with vlan(), netem("client", "cli0", "delay", f"{HELD}ms"):
        quietly(lambda: through_vlan(slow))


def begun_at_the_tag(slow, few):
    """The tracer of few hops has to read it where the tag stands before the IP header."""
    start = len(few.packets())
    with on_cpu(HOLDER), holding(HOLDER, HELD):
        whole = sent_unfenced(slow, "client", "10.0.7.1", 5921, None)
        sent_unfenced(slow, "client", "10.0.7.1", 5922, None)
    check_held(whole, VLAN, "backlog", "host0", None)
    part, = few.await_packets(1, start=start)
    expect_that("nothing of another port", all(p["dport"] == 5921 for p in few.packets()), brief(few.packets()))
    expect("its tuple", [part[k] for k in ("src", "dst", "sport", "dport")],
           [whole[k] for k in ("src", "dst", "sport", "dport")])
    check_held(part, [("netif_rx", "host0", None, None), ("__netif_receive_skb", "host0", None, "backlog")],
               "backlog", "host0", None)


@test
def vlan_tag_in_the_data(slow):
    with vlan(), without_vlan_offload("client", "cli0"), \
            Slowpkt("-j", "-u", "-d", 5921, "-l", "backlog=15ms") as few:
        quietly(lambda: begun_at_the_tag(slow, few))


# A socket that is locked

class Connection:
    """A TCP connection from client to web; both ends are ours."""

    def __init__(self, port):
        self.listener = within("web", lambda: socket.create_server((WEB4, port)))
        self.client = within("client", lambda: socket.create_connection((WEB4, port), 20))
        self.client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server, _ = self.listener.accept()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for s in (self.client, self.server, self.listener):
            s.close()


def locked(slow):
    slow.mark()
    with Connection(5940) as c, contextlib.closing(AbsentPage()) as page:
        reader = threading.Thread(target=lambda: c.server.recv_into(page.memory, 64))
        reader.start()
        c.client.send(b"1" * 64)
        page.await_writer()  # which is recv() with the socket's lock
        c.client.send(b"2" * 65)
        time.sleep(HELD / 1000)
        page.give()
        reader.join()
        packets = slow.await_packets(1, lambda p: p["dport"] == 5940 and p["len"] == 65)
        first = slow.packets(lambda p: p["dport"] == 5940 and p["len"] == 64)
    if len(packets) > 1 or first:
        raise Noisy(brief(packets + first))
    packet, = packets
    check_whole(packet, "delivered")
    way = [("tcp_rcv_established" if func == "STATE" else func, *rest) for func, *rest in THERE]
    check_held(packet, way, "tcplock", None, "web")


@test
def tcp_backlog_of_a_locked_socket(slow):
    quietly(lambda: locked(slow))


# A tunnel

VXLAN = down("vx0", "client") + \
    [("ip_finish_output2", "cli0", "client", "other"), ("__dev_queue_xmit", "cli0", "client", "neigh"),
     ("dev_hard_start_xmit", "cli0", "client", "qdisc")] + backlog("host0", None) + \
    [("ip_rcv", "host0", None, "link"), ("__netif_receive_skb", "vx0", None, "other")] + udp_end("vx0", None)
VXLAN_PORT = 4789


@contextlib.contextmanager
def vxlan():
    """A tunnel between client (10.0.8.2) and host (10.0.8.1)."""
    run("modprobe", "vxlan")
    ends = [(["ip"], "host0", "10.0.8.1", "10.0.8.2", "10.0.1.2", "02:00:00:00:08:01", "02:00:00:00:08:02"),
            (["ip", "-n", "client"], "cli0", "10.0.8.2", "10.0.8.1", "10.0.1.1", "02:00:00:00:08:02",
             "02:00:00:00:08:01")]
    try:
        for ip, dev, own, other, remote, mac, other_mac in ends:
            run(*ip, "link", "add", "vx0", "address", mac, "type", "vxlan", "id", "8", "dev", dev, "remote", remote,
                "dstport", str(VXLAN_PORT))
            run(*ip, "addr", "add", f"{own}/24", "dev", "vx0")
            run(*ip, "link", "set", "vx0", "up")
            run(*ip, "neigh", "replace", other, "dev", "vx0", "lladdr", other_mac, "nud", "permanent")
        yield
    finally:
        for ip, *_ in ends:
            run(*ip, "link", "del", "vx0")


def through_vxlan(slow, outer):
    slow.mark()
    start = time.monotonic_ns()
    with Traffic(None, "udp-read", "10.0.8.1", 5930) as reader:
        send("client", "udp-send", "10.0.8.1", 5930)
        reader.done()
    packet, = slow.exactly(1, of_port(5930))
    around, = outer.await_packets(1, lambda p: p["end"] != "waiting" and p["mono_ns"] > start)
    expect("the inner packet", [packet[k] for k in ("src", "dst")], ["10.0.8.2", "10.0.8.1"])
    check_whole(packet)
    expect_that("the outer one is no other", not slow.packets(of_port(VXLAN_PORT)), brief(slow.packets()))
    expect("the outer packet", [around[k] for k in ("src", "dst", "dport", "partial", "end")],
           ["10.0.1.2", "10.0.1.1", VXLAN_PORT, True, "unknown"])
    check_held(packet, VXLAN, "qdisc", "cli0", "client")
    first = [(func, dev, netns, stage if i else None) for i, (func, dev, netns, stage) in enumerate(VXLAN[4:10])]
    check_held(around, first, "qdisc", "cli0", "client")


@test
def vxlan_from_end_to_end(slow):
    with vxlan(), Slowpkt("-j", "-u", "-p", VXLAN_PORT, "-l", "15ms") as outer, \
            netem("client", "cli0", "delay", f"{HELD}ms"):
        quietly(lambda: through_vxlan(slow, outer))


def out_of_the_tunnel(tool, tap):
    start = len(tool.packets())
    inner = datagram("10.0.9.2", 999, "10.0.9.1", 5931, b"x" * 64)
    frame = bytes.fromhex("020000000901" "020000000902" "0800") + inner
    with Traffic(None, "udp-read", "10.0.9.1", 5931) as reader:
        tap.receive(datagram("10.77.0.2", 4444, "10.77.0.1", VXLAN_PORT, bytes.fromhex("0800000000000900") + frame))
        reader.done()
    around, within = sorted((p for p in tool.await_packets(2, start=start) if p["end"] != "waiting"),
                            key=lambda p: p["mono_ns"])
    for packet, port, end, length in ((around, VXLAN_PORT, "unknown", len(frame) + 8), (within, 5931, "read", 64)):
        expect("dport, end, len, partial", [packet[k] for k in ("dport", "end", "len", "partial")],
               [port, end, length, True])
    check_way(around, places([("__netif_receive_skb", "tap0", None, None), ("ip_rcv", "tap0", None, "link")]))
    check_way(within, places([("__netif_receive_skb", "vx9", None, None)] + udp_end("vx9", None)))
    expect_that("one after the other", around["mono_ns"] + around["total_ns"] <= within["mono_ns"],
                brief([around, within]))


@test
def vxlan_from_outside_is_two_journeys(slow):
    """Not slow, so of no interest to the other tracer, which goes on."""
    run("modprobe", "vxlan")
    with Tap(Tap.PLAIN) as tap, Slowpkt("-j", "-u", "-p", f"{VXLAN_PORT},5931", "-l", "0") as tool:
        run("ip", "link", "add", "vx9", "address", "02:00:00:00:09:01", "type", "vxlan", "id", "9", "dev", "tap0",
            "remote", "10.77.0.2", "dstport", str(VXLAN_PORT))
        run("ip", "addr", "add", "10.0.9.1/24", "dev", "vx9")
        run("ip", "link", "set", "vx9", "up")
        quietly(lambda: out_of_the_tunnel(tool, tap))
