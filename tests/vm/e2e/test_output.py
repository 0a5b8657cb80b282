# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Output and ends of the program. Two hooks are enough for this: -u -l socket=TIME."""
import os
import re
import signal
import time

from .harness import Noisy, quietly, test
from .lab import WEB4, inum
from .proc import MS, Traffic, expect, expect_that, send
from .tool import Slowpkt, tracing

PORT = 6000
ONLY = ["-u", "-l", "socket=0", "-d", PORT]
HEADER = "TIME DIR PROTO SOURCE DESTINATION TOTAL SLOWEST".split()
LINE = re.compile(
    r"\d\d:\d\d:\d\d\.\d{3} +RCV +udp +10\.0\.1\.2:(\d+) +172\.17\.0\.2:6000 +[0-9.]+(?:ns|us|ms|s) +"
    r"socket [0-9.]+(?:ns|us|ms|s) +pkt=(\d+)(?: id=\d+)? len=64 reader=slowread/(\d+) partial")
HOP = re.compile(r"  pkt=(\d+)(?: id=\d+)? [ !] \+\d+\.\d{3} +(\S+)@(\d+) +(\S+) +cpu\d+ .+")


def datagrams(n):
    with Traffic("web", "udp-read", WEB4, PORT, "-n", n, "--name", "slowread") as reader:
        send("client", "udp-send", WEB4, PORT, "-n", n)
        reader.done()
        return reader


def no_waiting(tool):
    """A sweep may have found a datagram just before it was read; then there is a line more."""
    if any("waiting" in line for line in tool.out.all):
        raise Noisy("a datagram was found waiting")


def text():
    with tracing(ONLY, ["-1", *ONLY]) as (path, oneline):
        # the header and the ready line come before any packet
        for tool in (path, oneline):
            expect("header", tool.out.wait_line("TIME").split(), HEADER)
        reader = datagrams(3)
        path.out.wait("three packets with their two hops", lambda all_lines: len(all_lines) >= 10)
        oneline.out.wait("three packets", lambda all_lines: len(all_lines) >= 4)
    no_waiting(path)
    no_waiting(oneline)
    expect("lines (with path, -1)", (len(path.out.all), len(oneline.out.all)), (10, 4))
    for number in range(1, 4):
        line, enqueue, read = path.out.all[1 + 3 * (number - 1):1 + 3 * number]
        match = LINE.fullmatch(line)
        expect_that("a packet's line", match, line)
        expect("pkt and reader", (int(match[2]), int(match[3])), (number, reader.pid))
        hops = [HOP.fullmatch(hop) for hop in (enqueue, read)]
        expect_that("its two hops", all(hops), (enqueue, read))
        expect("the hops' pkt, device, netns, name", [hop.groups() for hop in hops],
               [(str(number), "-", str(inum("web")), "udp_unicast_rcv_skb"),
                (str(number), "-", str(inum("web")), "__skb_recv_udp")])
        expect("grep finds the packet's lines", len([l for l in path.out.all if f"pkt={number} " in l]), 3)
    expect_that("a line per packet", all(LINE.fullmatch(line) for line in oneline.out.all[1:]), oneline.out.all)


@test
def text_with_path_and_oneline():
    quietly(text)


@test
def quiet_says_nothing():
    tool = Slowpkt("-q", "-1", *ONLY)
    try:
        # no ready line to wait for: its first packet says that it traces
        def first_line():
            datagrams(1)
            return tool.out.all
        deadline = time.monotonic() + 60
        while not first_line():
            expect_that("it runs", tool.popen.poll() is None and time.monotonic() < deadline, tool.err.all)
        tool.signal(signal.SIGINT)
        expect("exit status", tool.wait(), 0)
        expect("stderr", tool.err.all, [])
        expect_that("stdout has packets and no header", all(map(LINE.fullmatch, tool.out.all)), tool.out.all)
    finally:
        tool.kill()


@test
def count_ends_it():
    with tracing(["-j", "-c", 3, *ONLY], ["-1", "-c", 2, *ONLY]) as (three, two):
        datagrams(10)
        # they end by themselves
        expect("exit status of -c 3, of -c 2", (three.wait(), two.wait()), (0, 0))
        three.stop()
        two.stop()
    expect("packets of -c 3", len(three.packets()), 3)
    expect("lines of -c 2", len(two.out.all), 1 + 2)
    expect("printed", (three.counts["printed"], two.counts["printed"]), (3, 2))


@test
def duration_ends_it():
    for value, least in (("1", 1.0), ("300ms", 0.3)):
        with Slowpkt("-D", value, *ONLY) as tool:
            start = time.monotonic()
            expect("exit status", tool.wait(10), 0)
            took = time.monotonic() - start
            # it traced for as long as it was told to; the rest is its own end
            expect_that(f"-D {value}", least - 0.2 <= took <= least + 4, took)
            tool.stop()
        expect_that("the honest count", "matched" in tool.counts, tool.counts)


@test
def closed_pipe_ends_it():
    """slowpkt | head -1"""
    tool = Slowpkt("-1", *ONLY).await_ready()
    try:
        tool.out.wait_line("TIME")
        # the reading thread has the pipe's one other end: take it away under it
        null = os.open("/dev/null", os.O_RDONLY)
        os.dup2(null, tool.popen.stdout.fileno())
        os.close(null)

        def ended():
            datagrams(1)
            return tool.popen.poll() is not None
        deadline = time.monotonic() + 20
        while not ended():
            expect_that("it ends", time.monotonic() < deadline, tool.err.all)
        expect("exit status", tool.popen.wait(), 0)
        expect_that("the honest count", any(line.startswith("slowpkt: hits=") for line in tool.err.all), tool.err.all)
    finally:
        tool.kill()


COST = re.compile(r"slowpkt: cost: (\d+) runs took ([0-9.]+) ms of ([0-9.]+) s, ([0-9.]+) % of one CPU")
COST_AT = re.compile(r"slowpkt: cost at \S+ \((\S+)\): (\d+) runs, (\d+) ns each")
HITS_AT = re.compile(r"slowpkt: hits at \S+ \((\S+), [^)]+\): (\d+)")


def say_costs():
    with Slowpkt("-v", "-1", *ONLY) as tool:
        datagrams(10)
        tool.out.wait("ten packets", lambda all_lines: len(all_lines) >= 11)
    costs = [match for line in tool.err.all if (match := COST_AT.fullmatch(line))]
    hits = [match for line in tool.err.all if (match := HITS_AT.fullmatch(line))]
    runs = {match[1]: int(match[2]) for match in costs}
    expect("the kernel's runs of each hop, and slowpkt's own count", runs, {m[1]: int(m[2]) for m in hits})
    expect_that("ten datagrams' runs", runs["__udp_enqueue_schedule_skb"] >= 10 and runs["skb_consume_udp"] >= 10, runs)
    expect_that("each took its time", all(int(m[3]) for m in costs if int(m[2])), [m[0] for m in costs])
    if any(int(m[3]) > MS for m in costs):  # the machine's standing still counts too
        raise Noisy(str([m[0] for m in costs]))
    sums = [match for line in tool.err.all if (match := COST.fullmatch(line))]
    expect("lines with the sum", len(sums), 1)
    total, ms, seconds, share = int(sums[0][1]), *map(float, sums[0].groups()[1:])
    expect("the sum's runs", total, tool.counts["hits"])
    expect_that("the share of a CPU", 0 < share < 100 and abs(share - ms / seconds / 10) < 0.01, sums[0][0])


@test
def verbose_says_what_it_costs():
    quietly(say_costs)


@test
def only_verbose_says_what_it_costs():
    with Slowpkt("-1", *ONLY) as tool:
        datagrams(1)
    expect("lines about the cost", [line for line in tool.err.all if "cost" in line], [])


def end_by_signals():
    with tracing(["-j", *ONLY], ["-j", *ONLY]) as (tool, other):
        datagrams(2)
        tool.await_packets(2)
        counts = tool.ask_counts()
        no_waiting(tool)
        expect("matched and printed after SIGUSR1", (counts["matched"], counts["printed"]), (2, 2))
        datagrams(3)
        tool.await_packets(5)
        tool.stop(signal.SIGTERM)
        expect("status after SIGTERM", tool.status, 0)
        no_waiting(tool)
        expect("matched, printed at the end", [tool.counts[k] for k in ("matched", "printed", "slow")], [5, 5, 5])
        other.await_packets(5)
        other.stop(signal.SIGINT)
        expect("status after SIGINT", other.status, 0)
    expect("the count's fields", list(tool.counts)[:8],
           "hits matched slow printed lost evicted unparsed missed".split())


@test
def signals_end_it_or_make_it_count():
    quietly(end_by_signals)


@test
def nothing_matched_has_a_hint():
    with Slowpkt("-u", "-l", "socket=0", "-d", PORT + 1) as tool:
        datagrams(1)
    expect("matched", tool.counts["matched"], 0)
    expect_that("hits", tool.counts["hits"] >= 2, tool.counts)
    expect_that("a hint", any("nothing matched" in line for line in tool.err.all), tool.err.all)
    expect("stdout", [line.split() for line in tool.out.all], [HEADER])
