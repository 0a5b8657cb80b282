# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The ends that a packet may come to, other than its reader."""
import contextlib
import fcntl
import os
import struct
import time

from .harness import Noisy, quietly, test
from .lab import CLIENT4, HOST_NS, WEB4, drops, has_drop_reasons, inum, netem, nft
from .proc import MS, Traffic, expect, expect_that, run, send, wait_for
from .test_tcp import way_of
from .test_udp import check_between
from .tool import brief, end_time

NEAR = 5 * MS


def of_port(port):
    return lambda packet: port in (packet["dport"], packet["sport"])


def wait_until(ns):
    """Until a moment that is part of the experiment: for so long a packet has to be held."""
    time.sleep(max(0, ns - time.monotonic_ns()) / 1e9)


def drop_behind_delay(slow):
    slow.mark()
    with netem("client", "cli0", "delay", "200ms"), \
            nft(None, "add chain inet e2e f { type filter hook forward priority 0; };"
                      "add rule inet e2e f udp dport 5500 counter drop"):
        sent, = send("client", "udp-send", WEB4, 5500).events("sent")
        wait_for("the rule has dropped it", drops)
        packet, = slow.exactly(1, of_port(5500))
    expect("end", packet["end"], "dropped")
    expect("reason", packet.get("drop_reason"), "NETFILTER_DROP" if has_drop_reasons() else None)
    expect("hops", [hop[0] for hop in way_of(packet)],
           ["ip_queue_xmit", "ip_finish_output2", "__dev_queue_xmit", "dev_hard_start_xmit", "netif_rx",
            "__netif_receive_skb", "ip_rcv", "kfree_skb"])
    expect("the drop's netns and stage", [packet["hops"][-1].get(k) for k in ("netns", "stage")],
           [HOST_NS, "drop"])
    expect("slowest", [packet["slowest"][k] for k in ("stage", "dev", "netns")],
           ["qdisc", "cli0", inum("client")])
    check_between("sent", sent[1], packet["mono_ns"], sent[2])
    expect_that("200 ms at least", packet["slowest"]["ns"] >= 200 * MS, brief([packet]))
    if packet["total_ns"] > 200 * MS + NEAR:
        raise Noisy(brief([packet]))


def close_unread(slow, socket):
    slow.mark()
    socket.mark()
    with Traffic("web", "udp-read", WEB4, 5510, "--wait") as reader:
        sent, = send("client", "udp-send", WEB4, 5510, "--size", 100).events("sent")
        wait_until(sent[2] + 80 * MS)
        before = time.monotonic_ns()
        reader.close()
    # the kernel frees the socket's queue some time after the close, behind an RCU grace period
    slow.await_packets(1, lambda p: p["dport"] == 5510 and p["end"] != "waiting")
    after = time.monotonic_ns()
    packet, = slow.exactly(1, of_port(5510))
    # a kernel without drop reasons says that it was freed, not why
    expect_that("end", packet["end"] == "unread" or (packet["end"] == "dropped" and not has_drop_reasons()),
                brief([packet]))
    expect("len", packet["len"], 100)
    expect("no reader", packet.get("reader"), None)
    check_between("sent", sent[1], packet["mono_ns"], sent[2])
    check_between("closed", before, end_time(packet), after)
    # the few hooks of the socket stage see less of it, but not a read
    ends = {p["end"] for p in socket.packets(of_port(5510))}
    expect_that("ends seen by the few hooks", ends <= {"waiting", "unknown", "unread", "dropped"}, ends)


@test
def unread_when_its_socket_closes(slow, socket):
    close_unread(slow, socket)


@test
def waiting_in_the_socket_then_read(slow, socket):
    port = 5520
    with Traffic("web", "udp-read", WEB4, port, "--wait", "--name", "slowread") as reader:
        sent, = send("client", "udp-send", WEB4, port).events("sent")
        for view in (slow, socket):
            first, = view.await_packets(1, of_port(port), 5)
            expect("end, before it is read", first["end"], "waiting")
            expect("no reader yet", first.get("reader"), None)
            expect_that("it has waited", 15 * MS <= first["total_ns"], brief([first]))
            expect_that("not longer than it can have",
                        end_time(first) <= time.monotonic_ns() and first["mono_ns"] >= sent[1], brief([first]))
            expect("slowest", first["slowest"]["stage"], "socket")
        # two more sweeps find it still there, and say nothing new
        wait_until(sent[2] + 3500 * MS)
        for view in (slow, socket):
            expect("lines while it waits", len(view.packets(of_port(port))), 1)
        reader.go()
        _, _, _, call, back = reader.await_events("read", 1)[0]
        for view in (slow, socket):
            last, = view.exactly(1, of_port(port))
            first = view.packets(of_port(port))[0]
            expect("end, pkt and start of the second line", [last[k] for k in ("end", "pkt", "mono_ns")],
                   ["read", first["pkt"], first["mono_ns"]])
            check_between("read", call, end_time(last), back)


@test
def dropped_by_netfilter_behind_a_delay(slow):
    quietly(lambda: drop_behind_delay(slow))


@test
def waiting_in_a_qdisc_then_read(slow):
    port = 5530
    with Traffic("web", "udp-read", WEB4, port) as reader, netem(None, "vethc", "delay", "2500ms"):
        sent, = send("client", "udp-send", WEB4, port).events("sent")
        first, = slow.await_packets(1, of_port(port), 5)
        expect("end, before it goes on", first["end"], "waiting")
        expect("slowest", [first["slowest"].get(k) for k in ("stage", "from", "to", "dev", "netns")],
               ["qdisc", "__dev_queue_xmit", None, "vethc", HOST_NS])
        _, _, _, call, back = reader.await_events("read", 1)[0]
        last, = slow.exactly(1, of_port(port))
        expect("lines", len(slow.packets(of_port(port))), 2)
        expect("end and pkt of the second line", [last[k] for k in ("end", "pkt")], ["read", first["pkt"]])
        expect_that("2500 ms", last["slowest"]["ns"] >= 2500 * MS, brief([last]))
        check_between("sent", sent[1], last["mono_ns"], sent[2])
        check_between("read", sent[1] + 2500 * MS, end_time(last), back)


@contextlib.contextmanager
def tun(name, address):
    """A tun device whose program never reads: what it gets is gone for us."""
    tunsetiff, iff_tun, iff_no_pi = 0x400454CA, 1, 0x1000
    fd = os.open("/dev/net/tun", os.O_RDWR)
    try:
        fcntl.ioctl(fd, tunsetiff, struct.pack("16sH22x", name.encode(), iff_tun | iff_no_pi))
        run("ip", "addr", "add", address, "dev", name)
        run("ip", "link", "set", name, "up")
        yield
    finally:
        os.close(fd)


def into_tun(slow):
    slow.mark()
    run("modprobe", "tun")
    with tun("tun0", "10.99.0.1/24"), netem(None, "tun0", "delay", "80ms"):
        sent, = send(None, "udp-send", "10.99.0.2", 5540).events("sent")
        # a sweep may come within the 80 ms, and say first that it waits
        packet = slow.await_packets(1, lambda p: p["dport"] == 5540 and p["end"] != "waiting", 10)[0]
        wait_until(sent[2] + 3500 * MS)
        expect("lines, some sweeps later", len(slow.finals(of_port(5540))), 1)
    expect("end", packet["end"], "unknown")
    expect("last hop", [packet["hops"][-1][k] for k in ("func", "dev")], ["dev_hard_start_xmit", "tun0"])
    expect("slowest", [packet["slowest"][k] for k in ("stage", "dev")], ["qdisc", "tun0"])
    check_between("sent", sent[1], packet["mono_ns"], sent[2])
    # where it was after its last hop is not known, so the time since then is not its own
    expect("the total ends at the last hop", packet["total_ns"], packet["hops"][-1]["at_ns"])
    expect_that("80 ms at least", packet["total_ns"] >= 80 * MS, brief([packet]))
    if packet["total_ns"] > 80 * MS + NEAR:
        raise Noisy(brief([packet]))


@test
def unknown_behind_a_tun_device(slow):
    quietly(lambda: into_tun(slow))


@test
def waiting_in_a_qdisc_then_unknown(slow):
    """A sweep tells that it waits; that it went on from there, and was seen no more, is told too."""
    run("modprobe", "tun")
    with tun("tun1", "10.99.1.1/24"), netem(None, "tun1", "delay", "1500ms"):
        sent, = send(None, "udp-send", "10.99.1.2", 5541).events("sent")
        last = slow.await_packets(2, of_port(5541), 10)[-1]
        wait_until(sent[2] + 5000 * MS)
        expect("ends of its lines, some sweeps later", [p["end"] for p in slow.packets(of_port(5541))],
               ["waiting", "unknown"])
        expect("one number, start and a longer time", slow.finals(of_port(5541)), [last])
    expect("last hop", [last["hops"][-1][k] for k in ("func", "dev", "stage")], ["dev_hard_start_xmit", "tun1", "qdisc"])
    expect("the total ends at the last hop", last["total_ns"], last["hops"][-1]["at_ns"])
    expect_that("1500 ms at least", last["total_ns"] >= 1500 * MS, brief([last]))


@test
def dropped_by_a_full_socket(slow):
    """Held 60 ms on its way, then the socket has no room for it."""
    port = 5550
    with Traffic("web", "udp-read", WEB4, port, "--rcvbuf", 1, "--wait") as reader:
        with netem("client", "cli0", "delay", "60ms"):
            sender = send("client", "udp-send", WEB4, port, "-n", 8, "--size", 1400)
            dropped = slow.await_packets(1, lambda p: p["dport"] == port and p["end"] == "dropped")
        expect_that("a reason, where there are any",
                    all(p.get("drop_reason") == ("SOCKET_RCVBUFF" if has_drop_reasons() else None) for p in dropped),
                    [p.get("drop_reason") for p in dropped])
        reader.close()
        packets = slow.exactly(8, of_port(port))
    for sent, packet in zip(sender.events("sent"), sorted(packets, key=lambda p: p["mono_ns"])):
        expect_that("end", packet["end"] in ("dropped", "unread"), brief([packet]))
        expect("src", packet["src"], CLIENT4)
        check_between("sent", sent[1], packet["mono_ns"], sent[2])
        expect_that("60 ms at least", packet["total_ns"] >= 60 * MS, brief([packet]))
        if packet["end"] == "dropped" and has_drop_reasons():  # else those left unread are called so, too
            expect_that("nothing was added behind the drop", packet["total_ns"] < 60 * MS + 60 * MS, brief([packet]))
