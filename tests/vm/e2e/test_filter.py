# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Filters. All of them see the same traffic; for each it is known which flows it lets
through, and that it holds back all others. -l socket=0 and -l tcplock=0 print each
datagram that is read and each segment that reaches the state machine, with few hooks.
"""
import collections
import contextlib
import itertools

from .harness import test
from .lab import CLIENT4, CLIENT6, HOST4, HOST_NS, WEB4, WEB6, inum
from .proc import Traffic, expect, expect_that, send
from .tool import brief, tracing

UDP, TCP, NEAR = 5300, 8000, 5301  # ports of the servers; NEAR: on the host itself
TRIPS = 3

# > goes to the server, < comes back; u4 u6 t4 t6: to the container, n4: UDP to the host
ALL = "u4> u4< u6> u6< n4> n4< t4> t4< t6> t6<"


def flows_of(base):
    """name → (proto, src, sport, dst, dport)"""
    flows = {}
    for name, proto, client, sport, server, port in (
            ("u4", "udp", CLIENT4, base, WEB4, UDP), ("u6", "udp", CLIENT6, base + 1, WEB6, UDP),
            ("n4", "udp", CLIENT4, base + 2, HOST4, NEAR), ("t4", "tcp", CLIENT4, base + 3, WEB4, TCP),
            ("t6", "tcp", CLIENT6, base + 4, WEB6, TCP)):
        flows[name + ">"] = (proto, client, sport, server, port)
        flows[name + "<"] = (proto, server, port, client, sport)
    return flows


ISN = 1_000_000_000

# The clients' ports are new each time: a TCP connection's end keeps them for a minute.
bases = itertools.count(41000, 100)


@contextlib.contextmanager
def servers():
    with Traffic("web", "udp-echo", WEB4, UDP) as u4, Traffic("web", "udp-echo", WEB6, UDP) as u6, \
            Traffic(None, "udp-echo", HOST4, NEAR) as n4, \
            Traffic("web", "tcp-echo", WEB4, TCP) as t4, Traffic("web", "tcp-echo", WEB6, TCP) as t6:
        yield {"u4": u4, "u6": u6, "n4": n4, "t4": t4, "t6": t6}


def make_traffic(base):
    """Three trips on each flow. The TCP connections' first number is ISN, a request has 64 bytes."""
    for proto, client, sport, server, port in [f for name, f in flows_of(base).items() if name[2] == ">"]:
        send("client", f"{proto}-rr", server, port, "-n", TRIPS, "--bind", f"{client},{sport}",
             *(["--isn", ISN] if proto == "tcp" else []))


def check_case(tool, flows, lets_through):
    names = {flow: name for name, flow in flows.items()}
    seen = collections.Counter(names.get(tuple(p[k] for k in ("proto", "src", "sport", "dst", "dport")), brief([p]))
                               for p in tool.finals())
    what = f"flows of {' '.join(tool.args)}"
    expect(what, sorted(seen), sorted(lets_through.split()))
    for name, n in seen.items():
        if name[0] != "t":
            expect(f"lines of {name} in {what}", n, TRIPS)
    expect(f"packets printed by {' '.join(tool.args)}", tool.counts["printed"], len({p["pkt"] for p in tool.packets()}))
    if not lets_through:
        expect(f"slow of {' '.join(tool.args)}", tool.counts["slow"], 0)


def stages(options):
    """A stage of each protocol that the options let through."""
    return ([] if {"-t", "--seq"} & set(options) else ["-l", "socket=0"]) + \
           ([] if "-u" in options else ["-l", "tcplock=0"])


def run_cases(cases, journey=False):
    """cases: (options, the flows that they let through); their tracers start side by side."""
    base = next(bases)
    flows = flows_of(base)
    with servers() as server:
        commands = [list(map(str, options(server) if callable(options) else options)) for options, _ in cases]
        with tracing(*(["-j", "--table", 1024, *stages(options), *options] for options in commands)) as tools:
            make_traffic(base)
            for tool, (_, lets_through) in zip(tools, cases):
                n = sum(TRIPS for _ in lets_through.split())
                if n:
                    tool.await_packets(1 if "--seq" in tool.args else n, lambda p: p["end"] != "waiting")
        for tool, (_, lets_through) in zip(tools, cases):
            check_case(tool, flows, lets_through)
            if not lets_through and not journey:
                # refused at once, and not only at its end
                expect(f"matched by {' '.join(tool.args)}", tool.counts["matched"], 0)
    return tools


@test
def filter_by_port():
    run_cases([
        ([], ALL),
        (["-d", UDP], "u4> u6>"),
        (["-s", TCP], "t4< t6<"),
        (["-p", f"{UDP},{TCP}"], "u4> u4< u6> u6< t4> t4< t6> t6<"),
        (["-d", f"{NEAR},7990-8010"], "n4> t4> t6>"),
        (["-s", "40000-60000", "-d", "5300"], "u4> u6>"),
        (["-p", "1-1023,5302-7999"], ""),
        (["-d", TCP, "-s", TCP], ""),
    ])


@test
def filter_by_address():
    run_cases([
        (["-H", WEB4], "u4> u4< t4> t4<"),
        (["-H", "fd00:17::/64"], "u6> u6< t6> t6<"),
        (["-H", HOST4, "-H", WEB6], "n4> n4< u6> u6< t6> t6<"),
        (["--src", "10.0.1.0/31", "--src", CLIENT4], "u4> n4> n4< t4>"),
        (["--dst", "172.17.0.0/16"], "u4> t4>"),
        (["--dst", CLIENT6], "u6< t6<"),
        (["-H", "172.17.0.3", "-H", "fd00:17::3"], ""),
        (["--src", CLIENT4, "--dst", CLIENT4], ""),
    ])


@test
def filter_by_protocol_and_combined():
    run_cases([
        (["-t"], "t4> t4< t6> t6<"),
        (["-u"], "u4> u4< u6> u6< n4> n4<"),
        (["-4"], "u4> u4< n4> n4< t4> t4<"),
        (["-6"], "u6> u6< t6> t6<"),
        (["-t", "-6", "-s", TCP], "t6<"),
        (["-u", "-4", "--src", CLIENT4, "-d", f"{UDP},{TCP}"], "u4>"),
        (["-H", CLIENT4, "-H", CLIENT6, "-d", UDP, "-6"], "u6>"),
        # each holds of some tuple, and both of none
        (["--src", CLIENT4, "-s", UDP], ""),
    ])


@test
def filter_by_sequence_number():
    first = ISN + 1  # of the first request; the SYN has ISN
    tools = run_cases([
        (["--seq", ISN], "t4> t6>"),
        (["--seq", first], "t4> t6>"),
        (["--seq", first + 63, "-4"], "t4>"),
        (["--seq", first + 64 + 32, "-6", "-d", TCP], "t6>"),
        (["--seq", first + 3 * 64 + 2], ""),
        (["--seq", ISN - 1], ""),
        (["--seq", first + 64, "-s", TCP], ""),
    ])
    for tool, number in zip(tools, (ISN, first, first + 63, first + 64 + 32)):
        for packet in tool.packets():
            expect_that(f"{number} lies in the range of {brief([packet])}",
                        packet["seq"] <= number < packet["seq"] + max(packet["len"], 1),
                        (packet["seq"], packet["seq_end"]))
    expect("flags of what has the first number", {p["flags"] for p in tools[0].packets()}, {"S"})
    expect("data at its last byte", [(p["seq"], p["len"]) for p in tools[2].packets() if p["len"]], [(first, 64)])


@test
def filter_by_netns_device_and_pid():
    """These ask about the whole journey; here only its last hops are seen."""
    web, client = inum("web"), inum("client")
    run_cases([
        (["-N", "web", "-u"], "u4> u6>"),
        (["-N", web, "-N", "/run/netns/client", "-u"], "u4> u4< u6> u6< n4<"),
        (["-N", HOST_NS, "-u"], "n4>"),
        (["-N", "aside"], ""),
        (["-i", "eth0@web", "-u"], "u4> u6>"),
        (["-i", "host0", "-i", f"cli0@{client}", "-t"], "t4< t6<"),
        (["-i", "cli0@web"], ""),
        (["-i", "nodevice0"], ""),
    ], journey=True)


@test
def filter_by_pid():
    run_cases([
        (lambda server: ["-u", "--pid", str(server["u4"].pid)], "u4>"),
        (lambda server: ["-u", "--pid", str(server["u6"].pid)], "u6>"),
        (lambda server: ["-u", "-N", f"pid:{server['u4'].pid}"], "u4> u6>"),
        (["--pid", 1], ""),
    ], journey=True)
