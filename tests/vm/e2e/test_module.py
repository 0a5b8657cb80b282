# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The bridge is a module: it may come when the tracer is there already, and must be able to go."""
import re

from . import lab
from .harness import test
from .lab import CLIENT4, WEB4
from .proc import Traffic, expect, expect_that, run, send, wait_for
from .test_check import check
from .test_every import udp_way
from .test_tcp import way_of
from .tool import Slowpkt, brief

BRIDGE = "br_handle_frame_finish"


def is_loaded():
    with open("/proc/modules", encoding="ascii") as f:
        return any(line.startswith("bridge ") for line in f)


def check_bridged(tool, count):
    """So many datagrams back from the container, each with the hop in the bridge."""
    before = len(tool.finals())
    with Traffic("web", "udp-echo", WEB4, 5950):
        send("client", "udp-rr", WEB4, 5950, "-n", count)
        tool.await_packets(before + count, lambda p: p["end"] == "read")
    for packet in tool.finals()[before:]:
        expect("dst", packet["dst"], CLIENT4)
        expect(f"the way of {brief([packet])}", way_of(packet), udp_way(False, 4))


@test
def bridge_module_comes_and_goes():
    lab.down()
    run("rmmod", "bridge", "veth")
    try:
        status, _, table, _ = check()
        expect("exit status of --check without the module", status, 0)
        expect_that("it is awaited", re.search(f"{BRIDGE} +joins when the module bridge comes\n", table), table)
        with Slowpkt("-j", "-v", "-l", "0", "-u", "-s", 5950) as tool:
            expect("how the bridge's hop is attached without the module", tool.ask_hits()[BRIDGE][1], "not attached")
            expect_that("this is said", any(line.startswith("slowpkt: not attached") and BRIDGE in line
                                            for line in tool.err.all), tool.err.all[-5:])
            # veth and br_netfilter have no hop of their own, and come late here, too
            for times, more in ((1, []), (2, ["br_netfilter"])):
                lab.up()
                if more:
                    run("modprobe", *more)
                wait_for(f"the hop is attached when the module has come {times} times",
                         lambda: tool.ask_hits()[BRIDGE][1] == "kprobe")
                check_bridged(tool, 3)
                lab.down()
                run("rmmod", *more, "bridge")
                expect("the module is loaded", is_loaded(), False)
                if times == 1:
                    wait_for("the hop is gone", lambda: tool.ask_hits()[BRIDGE][1] == "not attached")
    finally:
        lab.down()
        lab.up()
