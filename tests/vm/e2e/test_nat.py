# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
NAT of both kinds, seen by filters on the tuple before, on the one behind, and on a
mixture that is none. The first one's journey is whole; the second one's begins, partial,
at the first hop behind. That a bridge calls netfilter, too, changes nothing.
"""
import contextlib

from .harness import Missed, quietly, test
from .lab import CLIENT4, HOST4, WEB4, nft
from .proc import Traffic, expect, expect_that, run, send
from .test_every import udp_way
from .test_filter import bases
from .test_tcp import check_way
from .tool import brief, tracing

# DNAT: to the host's port, by which the container's is meant. MASQUERADE: from the
# container to the client, as one of the host's ports.
DNAT, WEB, OUT, MASQUERADE, LAST = 8088, 8300, 6100, 7000, 7009
RULES = ("add chain inet e2e pre { type nat hook prerouting priority -100; };"
         "add chain inet e2e post { type nat hook postrouting priority 100; };"
         f"add rule inet e2e pre ip daddr {HOST4} meta l4proto {{ tcp, udp }} th dport {DNAT} dnat ip to {WEB4}:{WEB};"
         f"add rule inet e2e post ip saddr {WEB4} udp dport {OUT} masquerade to :{MASQUERADE}-{LAST};"
         f"add rule inet e2e post ip saddr {WEB4} tcp dport {OUT} masquerade to :{MASQUERADE}-{LAST}")
TRIPS = 2


def tuple_of(packet):
    """Of the ports for masquerading one stands for all."""
    return tuple(MASQUERADE if packet[k] in range(MASQUERADE, LAST + 1) else packet[k]
                 for k in ("src", "sport", "dst", "dport"))


def nat_of(packet):
    return tuple_of(packet["nat"]) if "nat" in packet else None


def flows(client, web):
    """
    name: (the tuple before, the one behind, to the container or not, where it is translated). An
    answer's destination is translated where it comes in, its source where it goes out.
    """
    return {
        "dnat": ((CLIENT4, client, HOST4, DNAT), (CLIENT4, client, WEB4, WEB), True),
        "dnat's answer": ((WEB4, WEB, CLIENT4, client), (HOST4, DNAT, CLIENT4, client), False),
        "masquerade": ((WEB4, web, CLIENT4, OUT), (HOST4, MASQUERADE, CLIENT4, OUT), False),
        "masquerade's answer": ((CLIENT4, OUT, HOST4, MASQUERADE), (CLIENT4, OUT, WEB4, web), True),
    }


def check_packet(packet, before, behind, there, whole):
    expect(f"tuple and nat of {brief([packet])}", (tuple_of(packet), nat_of(packet)),
           (before, behind) if whole else (behind, None))
    expect(f"partial of {brief([packet])}", packet["partial"], not whole)
    if packet["proto"] != "udp":
        return
    way = udp_way(there, 4)
    if not whole:
        # it has the name from where the host has routed it on
        way = way[[hop[:2] for hop in way].index(("ip_finish_output2", "docker0" if there else "host0")):]
        way[0] = (*way[0][:3], None)
    check_way(packet, way)


def converse(tools, client, web):
    for proto in ("udp", "tcp"):
        with Traffic("web", f"{proto}-echo", WEB4, WEB), Traffic("client", f"{proto}-echo", CLIENT4, OUT):
            send("client", f"{proto}-rr", HOST4, DNAT, "-n", TRIPS, "--bind", f"{CLIENT4},{client}")
            send("web", f"{proto}-rr", CLIENT4, OUT, "-n", TRIPS, "--bind", f"{WEB4},{web}")
    for tool, start in tools.items():
        tool.await_packets(4 * TRIPS, lambda p: p["proto"] == "udp" and p["end"] == "read", start)
        # of each connection both ends send a FIN
        fins = tool.await_packets(4, lambda p: p["proto"] == "tcp" and "F" in p["flags"] and p["end"] != "waiting", start)
        if any(p["end"] == "unknown" for p in fins):
            raise Missed(brief(fins))
        expect_that("four of them are delivered", [p["end"] for p in fins].count("delivered") >= 4, brief(fins))


def check_tool(tool, start, wholes, client, web):
    seen = set()
    for packet in tool.packets()[start:]:
        if packet["end"] == "waiting":
            continue
        found = [(name, flow) for name, flow in flows(client, web).items()
                 if tuple_of(packet) in (flow[0], flow[1])]
        expect(f"flows of {brief([packet])}", len(found), 1)
        name, flow = found[0]
        check_packet(packet, *flow, name in wholes)
        seen.add((packet["proto"], name))
    expect(f"flows of {' '.join(tool.args)}", seen, {(proto, name) for proto in ("udp", "tcp") for name in flows(0, 0)})


@contextlib.contextmanager
def bridge_netfilter():
    run("modprobe", "br_netfilter")
    try:
        run("sysctl", "-qw", "net.bridge.bridge-nf-call-iptables=1")
        yield
    finally:
        run("rmmod", "br_netfilter")


def check_nat(before, behind, client, web):
    starts = {tool: len(tool.packets()) for tool in (before, behind)}
    converse(starts, client, web)
    # a request before DNAT, and what is to be masqueraded, are known by the first tuple
    check_tool(before, starts[before], ("dnat", "masquerade"), client, web)
    check_tool(behind, starts[behind], ("dnat's answer", "masquerade's answer"), client, web)


def nat():
    client = next(bases)
    web = client + 50
    with nft(None, RULES), \
            tracing(["-j", "-l", "0", "--table", 1024, "-p", f"{DNAT},{web}-{web + 1}"],
                    ["-j", "-l", "0", "--table", 1024, "-p", f"{WEB},{MASQUERADE}-{LAST}"],
                    # each of these holds on some tuple, all of them on none
                    ["-j", "-l", "0", "--table", 1024, "-p", "1-65535", "--src", HOST4, "--dst", WEB4]) as tools:
        before, behind, none = tools
        check_nat(before, behind, client, web)
        with bridge_netfilter():
            check_nat(before, behind, client + 1, web + 1)
    expect("lines where no one tuple holds", (none.packets(), none.counts["matched"]), ([], 0))


@test
def nat_of_both_kinds():
    quietly(nat)
