# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Named stages: their hooks alone do; a delay of 100 ms, and limits above and below it."""
from .harness import Noisy, quietly, test
from .lab import KERNEL, WEB4, inum, netem
from .proc import MS, Traffic, expect, expect_that, send
from .tool import brief, tracing

BELOW, ABOVE, DELAY = "60ms", "180ms", 100


@test
def few_hooks_do_for_the_socket_stage(socket):
    # what the kernel says, not what the tool says
    with open("/sys/kernel/tracing/enabled_functions", encoding="ascii") as f:
        functions = {line.split()[0] for line in f if not line[0].isspace()}
    expect("functions with a program", functions, {"__udp_enqueue_schedule_skb", "skb_consume_udp"})
    with open("/sys/kernel/debug/kprobes/list", encoding="ascii") as f:
        probed = {line.split()[2].partition("+")[0] for line in f}
    # 7 preempts tasks in the midst of an fentry program
    expect("kprobes", probed, {"skb_consume_udp"} if KERNEL >= (7, 0) else set())
    # the tracepoint tells a datagram that was dropped, or never read, from one that waits
    expect("hops attached", set(socket.tool.ask_hits()),
           {"__udp_enqueue_schedule_skb", "skb_consume_udp", "kfree_skb"})


def lines_of(tool, port):
    return [p for p in tool.packets() if port in (p["sport"], p["dport"]) and p["end"] != "waiting"]


def too_slow(packets):
    return [p for p in packets if p["total_ns"] > (DELAY + 60) * MS]


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
