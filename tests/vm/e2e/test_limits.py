# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Thresholds: a delay of 100 ms and limits above and below it, on the total and on a stage."""
from .harness import Noisy, quietly, test
from .lab import WEB4, inum, netem
from .proc import MS, Traffic, expect, expect_that, send
from .tool import brief, tracing

BELOW, ABOVE, DELAY = "60ms", "180ms", 100


def lines_of(tool, port):
    return [p for p in tool.packets() if port in (p["sport"], p["dport"]) and p["end"] != "waiting"]


def too_slow(packets):
    return [p for p in packets if p["total_ns"] > (DELAY + 60) * MS]


def around_a_total():
    with tracing(["-j", "-l", BELOW], ["-j", "-l", ABOVE]) as (below, above):
        with Traffic("web", "tcp-echo", WEB4, 8200), Traffic("web", "udp-echo", WEB4, 5800), \
                netem("client", "cli0", "delay", f"{DELAY}ms"):
            send("client", "udp-rr", WEB4, 5800, "-n", 3)
            send("client", "tcp-rr", WEB4, 8200, "-n", 3)
            udp = below.await_packets(3, lambda p: p["dport"] == 5800 and p["end"] == "read")
            tcp = below.await_packets(5, lambda p: p["dport"] == 8200 and p["end"] != "waiting")
    if too_slow(udp + tcp):
        raise Noisy(brief(too_slow(udp + tcp)))
    expect("UDP lines of -l " + BELOW, len(udp), 3)
    # a SYN, its ACK or the first request with it, two more requests, a FIN, the last ACK
    expect_that("TCP lines of -l " + BELOW, 5 <= len(tcp) <= 9, brief(tcp))
    expect_that("none of them fast", all(p["total_ns"] >= 100 * MS for p in udp + tcp), brief(udp + tcp))
    expect("lines the other way", [brief([p]) for p in below.packets() if p["sport"] in (5800, 8200)], [])
    expect("lines of -l " + ABOVE, [brief([p]) for p in above.packets()], [])
    expect("matched by both", above.counts["matched"], below.counts["matched"])
    expect("slow, of -l " + ABOVE, above.counts["slow"], 0)


@test
def total_above_and_below_its_threshold():
    quietly(around_a_total, 4)


def around_a_stage():
    stages = [["-j", "-l", f"{stage}={limit}"] for stage in ("qdisc", "socket") for limit in (BELOW, ABOVE)]
    with tracing(*stages) as (qdisc, no_qdisc, socket, no_socket):
        # one after the other: what waits in the qdisc does not wait in the socket
        with netem("client", "cli0", "delay", f"{DELAY}ms"), Traffic("web", "udp-read", WEB4, 5810, "-n", 3) as reader:
            send("client", "udp-send", WEB4, 5810, "-n", 3)
            reader.done()
        with Traffic("web", "udp-read", WEB4, 5811, "-n", 1, "--delay", DELAY) as reader:
            send("client", "udp-send", WEB4, 5811)
            _, _, seen, _, back = reader.await_events("read", 1)[0]
            socket.await_packets(1, lambda p: p["dport"] == 5811 and p["end"] == "read")
        # nothing ends here for the qdisc's hops: the sweep finds what it held
        held = qdisc.await_packets(3, lambda p: p["dport"] == 5810 and p["end"] != "waiting")
    if back - seen > (DELAY + 60) * MS or too_slow(held):
        raise Noisy(f"{(back - seen) / MS:.1f} ms, {brief(held)}")
    expect("ports of -l qdisc=" + BELOW, [p["dport"] for p in lines_of(qdisc, 5810) + lines_of(qdisc, 5811)],
           [5810] * 3)
    for packet in held:
        expect("slowest", [packet["slowest"][k] for k in ("stage", "dev", "netns")], ["qdisc", "cli0", inum("client")])
        expect_that(f"{DELAY} ms", packet["slowest"]["ns"] >= DELAY * MS, brief([packet]))
    expect("ports of -l socket=" + BELOW, [p["dport"] for p in lines_of(socket, 5810) + lines_of(socket, 5811)], [5811])
    for tool in (no_qdisc, no_socket):
        expect(f"lines of {tool.args}", [brief([p]) for p in tool.packets()], [])
        expect_that(f"matched by {tool.args}", tool.counts["matched"] >= 4, tool.counts)


@test
def stage_above_and_below_its_threshold():
    quietly(around_a_stage, 4)
