# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Thresholds of the total: a delay between those of two tracers, 15 and 100 ms."""
from .harness import Noisy, quietly, test
from .lab import WEB4, netem
from .proc import MS, Traffic, expect, expect_that, send
from .tool import brief

DELAY = 50


def of_ports(packet):
    return {packet["sport"], packet["dport"]} & {5800, 8200}


def around_a_total(below, above):
    below.mark()
    above.mark()
    before = [view.tool.ask_counts() for view in (below, above)]
    with Traffic("web", "tcp-echo", WEB4, 8200), Traffic("web", "udp-echo", WEB4, 5800), \
            netem("client", "cli0", "delay", f"{DELAY}ms"):
        send("client", "udp-rr", WEB4, 5800, "-n", 3)
        send("client", "tcp-rr", WEB4, 8200, "-n", 3)
        below.await_packets(3, lambda p: p["dport"] == 5800 and p["end"] == "read")
        # until the connection's end, the last ACK
        fin = below.await_packets(1, lambda p: p["dport"] == 8200 and "F" in p["flags"] and p["end"] != "waiting")[0]
        below.await_packets(1, lambda p: p["dport"] == 8200 and p["mono_ns"] > fin["mono_ns"] and
                            p["end"] != "waiting")
    below.fence()  # for the other one the fence is too fast, as all of this is
    after = [view.tool.ask_counts() for view in (below, above)]
    lines = below.finals(of_ports)
    noise = [p for p in lines if p["total_ns"] > (DELAY + 35) * MS or p["dport"] not in (5800, 8200)]
    if noise:
        raise Noisy(brief(noise))
    udp, tcp = ([p for p in lines if p["dport"] == port] for port in (5800, 8200))
    expect("UDP lines of -l 15ms", len(udp), 3)
    # a SYN, its ACK or the first request with it, two more requests, a FIN, the last ACK
    expect_that("TCP lines of -l 15ms", 5 <= len(tcp) <= 9, brief(tcp))
    expect_that("none of them fast", all(p["total_ns"] >= DELAY * MS for p in lines), brief(lines))
    expect("lines of -l 100ms", [brief([p]) for p in above.packets()], [])
    matched, also = (b["matched"] - a["matched"] for a, b in zip(before, after))
    expect_that("matched by both", matched == also >= len(lines), (matched, also))
    expect("slow, of -l 100ms", after[1]["slow"] - before[1]["slow"], 0)


@test
def total_above_and_below_its_threshold(slow, idle):
    quietly(lambda: around_a_total(slow, idle), 4)
