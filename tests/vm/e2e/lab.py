# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The container host of ../lab: its names, its delays, what the kernel says of it."""
import contextlib
import ctypes
import fcntl
import json
import os
import re
import socket
import struct
import threading
import time

from .proc import TOP, enter_netns, run, wait_for

HOST_NS = os.stat("/proc/self/ns/net").st_ino
CLIENT4, HOST4, WEB4 = "10.0.1.2", "10.0.1.1", "172.17.0.2"
CLIENT6, HOST6, WEB6 = "fd00:1::2", "fd00:1::1", "fd00:17::2"
KERNEL = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))


def up():
    run(os.path.join(TOP, "tests/vm/lab"), "up")


def down():
    run(os.path.join(TOP, "tests/vm/lab"), "down")


def inum(netns):
    return os.stat(f"/run/netns/{netns}").st_ino if netns else HOST_NS


def tc(netns, *words):
    return run("tc", *(["-n", netns] if netns else []), *words)


@contextlib.contextmanager
def netem(netns, dev, *words):
    """A netem qdisc at a device, such as netem("web", "eth0", "delay", "100ms")."""
    tc(netns, "qdisc", "replace", "dev", dev, "root", "netem", "limit", "100000", *words)
    try:
        yield
    finally:
        tc(netns, "qdisc", "del", "dev", dev, "root")


@contextlib.contextmanager
def nft(netns, rules):
    """A table of rules, as nft reads them; gone afterwards."""
    run("nft", "add table inet e2e;" + rules, netns=netns)
    try:
        yield
    finally:
        run("nft", "delete table inet e2e", netns=netns)


def drops(netns=None):
    """How many packets a rule with a counter has dropped."""
    rules = json.loads(run("nft", "-j", "list", "table", "inet", "e2e", netns=netns))["nftables"]
    return sum(part["counter"]["packets"] for entry in rules if "rule" in entry
               for part in entry["rule"]["expr"] if "counter" in part)


def counters(netns, dev):
    """(sent, received) packets of a device."""
    link = json.loads(run("ip", *(["-n", netns] if netns else []), "-j", "-s", "link", "show", dev))
    stats = link[0]["stats64"]
    return stats["tx"]["packets"], stats["rx"]["packets"]


class Passed:
    """How many packets have gone from client to container, and back, since it was made."""

    def __init__(self):
        self._start = counters("client", "cli0"), counters("web", "eth0")

    def now(self):
        """(there, back); None while some are still on their way."""
        (a, b), (c, d) = self._start
        (sent, received), (sent2, received2) = counters("client", "cli0"), counters("web", "eth0")
        there, back = sent - a, received - b
        return (there, back) if (received2 - d, sent2 - c) == (there, back) else None

    def settled(self):
        return wait_for("all packets arrived", self.now)


SIOCETHTOOL, ETHTOOL_STSO, ETHTOOL_SGRO, ETHTOOL_GFLAGS, ETHTOOL_SFLAGS = 0x8946, 0x1F, 0x2C, 0x25, 0x26
ETHTOOL_SFEATURES = 0x3B
ETH_FLAG_TXVLAN = 1 << 7


def within(netns, what):
    """Does something in a netns, in a thread of its own; returns what it gives."""
    def enter():
        try:
            if netns:
                enter_netns(netns)  # of this thread only
            given.append(what())
        except Exception as error:  # the caller's to see
            errors.append(error)
    given, errors = [], []
    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return given[0]


def socket_in(netns, family, kind):
    """A socket belongs to the netns where it was made, whoever uses it."""
    return within(netns, lambda: socket.socket(family, kind))


def ask_ethtool(netns, dev, request):
    """Returns what the kernel has made of the request's bytes."""
    def ask():
        data = ctypes.create_string_buffer(request)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            fcntl.ioctl(s, SIOCETHTOOL, struct.pack("16sP", dev.encode(), ctypes.addressof(data)))
        return data.raw
    return within(netns, ask)


def ethtool(netns, dev, command, value):
    """Switches an offload of a device, or asks for flags; returns what the kernel answers."""
    return struct.unpack("II", ask_ethtool(netns, dev, struct.pack("II", command, value))[:8])[1]


def set_feature(netns, dev, bit, on):
    """Switches a feature of a device that has no command of its own; which are meant, and what they are to be."""
    blocks = [0, 0, 0, 0]
    blocks[bit // 32 * 2] = 1 << bit % 32
    blocks[bit // 32 * 2 + 1] = on << bit % 32
    ask_ethtool(netns, dev, struct.pack("6I", ETHTOOL_SFEATURES, 2, *blocks))


@contextlib.contextmanager
def without_vlan_offload(netns, dev):
    """The device writes VLAN tags into the data, where its peer finds them."""
    flags = ethtool(netns, dev, ETHTOOL_GFLAGS, 0)
    ethtool(netns, dev, ETHTOOL_SFLAGS, flags & ~ETH_FLAG_TXVLAN)
    try:
        yield
    finally:
        ethtool(netns, dev, ETHTOOL_SFLAGS, flags)


def has_drop_reasons():
    with open("/sys/kernel/tracing/events/skb/kfree_skb/format") as f:
        return "reason" in f.read()


def fence(port=9999):
    """
    A datagram to ourselves that waits 40 ms for its reader. slowpkt prints what ends
    in the order in which it ends: once this is printed, so is all from before.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", port))
        s.sendto(b"fence", ("127.0.0.1", port))
        time.sleep(0.04)
        s.recv(16)
    return port


def fence_dropped(port=9998):
    """The same for one that prints only what is dropped: there is no socket."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"fence", ("127.0.0.1", port))
    return port


