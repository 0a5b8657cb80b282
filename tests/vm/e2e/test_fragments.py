# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
A datagram in fragments. Before anybody asks for conntrack: what that puts together
again on its way is another skb, and up to 5.12 nothing takes that away any more.
"""
from .harness import Missed, Noisy, quietly, test
from .lab import inum, netem
from .proc import MS, expect, expect_that
from .test_every import udp_way
from .test_send_paths import BOTH, SHORT, of_port, pair, ports
from .test_tcp import check_way
from .tool import brief


def send_fragments(slow, address, family):
    """The first fragment is the datagram's skb; where they are put together again, another one is."""
    port = next(ports)
    slow.mark()
    with pair(address, port) as (sender, reader), netem(None, "vethc", "delay", "100ms"):
        sender.send(bytes(3000))
        expect("the datagram's length", len(reader.recv(4000)), 3000)
        # a sweep finds that it is gone, and another one may have found it waiting
        packet, = slow.exactly(1, of_port(port))
    if packet["partial"]:
        raise Missed(brief([packet]))
    expect("len, end", [packet[k] for k in ("len", "end")], [3000, "unknown"])
    expect("slowest", [packet["slowest"][k] for k in ("stage", "dev", "netns")], ["qdisc", "vethc", inum(None)])
    held = packet["slowest"]["ns"]
    expect_that("100 ms at least", held >= 100 * MS, brief([packet]))
    if packet["total_ns"] > 100 * MS + SHORT:
        raise Noisy(brief([packet]))
    check_way(packet, udp_way(True, family)[:-2])


@test
def fragments_are_told_up_to_their_reassembly(slow):
    for address, family in BOTH:
        quietly(lambda: send_fragments(slow, address, family))
