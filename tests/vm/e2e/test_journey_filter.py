# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Filters on the whole journey: what lies before the hop that matches is kept, but before a NAT it is not."""
from .harness import quietly, test
from .lab import CLIENT4, HOST4, HOST_NS, WEB4, nft
from .proc import Traffic, expect, expect_that, send
from .test_filter import ISN, bases, flows_of, make_traffic, servers
from .test_tcp import check_way, way_of
from .test_every import udp_way
from .tool import brief, tracing

def is_final(packet):
    return packet["end"] != "waiting"


def flow_of(packet):
    return tuple(packet[k] for k in ("proto", "src", "sport", "dst", "dport"))


def keep_the_hops_before():
    base = next(bases)
    with servers() as server, tracing(
            ["-j", "-l", "0", "--table", 1024, "-N", "web", "-u"],
            ["-j", "-l", "0", "--table", 1024, "-i", f"docker0@{HOST_NS}", "-4"],
            ["-j", "-l", "0", "--table", 1024, "--pid", server["u4"].pid]) as (web, docker0, pid):
        make_traffic(base)
        web.await_packets(12, is_final)
        docker0.await_packets(14, is_final)
        pid.await_packets(6, is_final)
    flows = flows_of(base)
    udp = {flows[name] for name in ("u4>", "u4<", "u6>", "u6<")}
    expect("flows of -N web -u", {flow_of(p) for p in web.finals()}, udp)
    expect("flows of -i docker0 -4", {flow_of(p) for p in docker0.finals()},
           {flows[name] for name in ("u4>", "u4<", "t4>", "t4<")})
    # what it reads, and what it sends
    expect("flows of --pid", {flow_of(p) for p in pid.finals()}, {flows["u4>"], flows["u4<"]})
    expect("lines of -N web -u and of --pid", (len(web.finals()), len(pid.finals())), (12, 6))
    for packet in web.finals() + pid.finals():
        check_way(packet, udp_way(packet["dport"] == 5300, 6 if ":" in packet["src"] else 4))
    for tool in (web, docker0, pid):
        expect("partial journeys", [brief([p]) for p in tool.finals() if p["partial"]], [])


@test
def netns_device_and_pid_keep_the_hops_before():
    quietly(keep_the_hops_before)


DNAT = ("add chain inet e2e pre { type nat hook prerouting priority -100; };"
        f"add rule inet e2e pre ip daddr {HOST4} tcp dport 8088 dnat ip to {WEB4}:8300;"
        f"add rule inet e2e pre ip daddr {HOST4} udp dport 5888 dnat ip to {WEB4}:5900")


def nat():
    """
    The host translates 10.0.1.1:5888 to 172.17.0.2:5900. A filter on the tuple before
    sees the whole journey, one on the tuple behind only the part from there.
    """
    udp = next(bases)
    tcp = udp + 1
    with nft(None, DNAT), Traffic("web", "tcp-echo", WEB4, 8300), Traffic("web", "udp-echo", WEB4, 5900), \
            tracing(["-j", "-l", "0", "--table", 1024, "-d", "8088,5888"],
                    ["-j", "-l", "0", "--table", 1024, "-d", "8300,5900"],
                    ["-j", "-l", "0", "--table", 1024, "-p", "5888"],
                    # holds before for one part, behind for the other, together never
                    ["-j", "-l", "0", "--table", 1024, "-d", "5888", "-H", WEB4]) as (before, behind, both, none):
        send("client", "udp-rr", HOST4, 5888, "-n", 3, "--bind", f"{CLIENT4},{udp}")
        send("client", "tcp-rr", HOST4, 8088, "-n", 3, "--bind", f"{CLIENT4},{tcp}")
        before.await_packets(3, lambda p: is_final(p) and p["proto"] == "udp")
        before.await_packets(6, lambda p: is_final(p) and p["proto"] == "tcp")
        behind.await_packets(3, lambda p: is_final(p) and p["proto"] == "udp")
        behind.await_packets(6, lambda p: is_final(p) and p["proto"] == "tcp")
        both.await_packets(6, is_final)

    first = {"udp": {"src": CLIENT4, "sport": udp, "dst": HOST4, "dport": 5888},
             "tcp": {"src": CLIENT4, "sport": tcp, "dst": HOST4, "dport": 8088}}
    last = {"udp": {"src": CLIENT4, "sport": udp, "dst": WEB4, "dport": 5900},
            "tcp": {"src": CLIENT4, "sport": tcp, "dst": WEB4, "dport": 8300}}
    whole = udp_way(True, 4)
    # it is another packet's name from where the host has routed it on
    rest = whole[[hop[:2] for hop in whole].index(("ip_finish_output2", "docker0")):]
    rest[0] = (*rest[0][:3], None)
    for packet in before.finals():
        expect("the tuple before", {k: packet[k] for k in first["udp"]}, first[packet["proto"]])
        expect(f"nat of {brief([packet])}", packet.get("nat"), last[packet["proto"]])
        expect("partial", packet["partial"], False)
        if packet["proto"] == "udp":
            check_way(packet, whole)
    for packet in behind.finals():
        expect("the tuple behind", {k: packet[k] for k in first["udp"]}, last[packet["proto"]])
        expect("partial", packet["partial"], True)
        expect(f"nat of {brief([packet])}", packet.get("nat"), None)
        if packet["proto"] == "udp":
            check_way(packet, rest)
    expect("packets before and behind", len(before.finals()), len(behind.finals()))

    requests = [p for p in both.finals() if p["dport"] == 5888]
    responses = [p for p in both.finals() if p["dport"] != 5888]
    expect("requests and responses of -p 5888", (len(requests), len(responses)), (3, 3))
    for packet in responses:
        # the response is called so only once the host has translated it back
        expect("the response's tuple", {k: packet[k] for k in first["udp"]},
               {"src": HOST4, "sport": 5888, "dst": CLIENT4, "dport": udp})
        expect("partial", packet["partial"], True)
        expect("first hop", way_of(packet)[0][:3], ("ip_finish_output2", "host0", HOST_NS))
    expect("lines where no one tuple holds", (none.packets(), none.counts["matched"]), ([], 0))
    expect_that("TCP, too", any(p["proto"] == "tcp" and p["len"] for p in behind.finals()), brief(behind.finals()))


@test
def nat_before_and_after():
    quietly(nat)


@test
def all_filters_load_with_all_hops():
    """The verifier sees each filter's code together with each hop's; what holds is let through."""
    base = next(bases)
    with servers() as server:
        common = ["-j", "-l", "0", "-l", "qdisc=1s", "--table", 64, "-p", "1-65535", "-s", "1-65535",
                  "-H", "10.0.1.0/24", "-H", "fd00::/16", "--src", CLIENT4, "-4",
                  "-N", "web", "-N", "client", "-i", f"docker0@{HOST_NS}", "-i", "eth0@web"]
        with tracing([*common, "-d", "5300", "--dst", WEB4, "--pid", server["u4"].pid],
                     [*common, "-d", "8000", "--dst", "172.17.0.0/16", "--seq", ISN]) as (udp, tcp):
            make_traffic(base)
            udp.await_packets(3, is_final)
            tcp.await_packets(1, is_final)
    flows = flows_of(base)
    expect("flows of all filters and UDP", [flow_of(p) for p in udp.finals()], [flows["u4>"]] * 3)
    expect("flows of all filters and TCP", [(flow_of(p), p["flags"]) for p in tcp.finals()], [(flows["t4>"], "S")])
