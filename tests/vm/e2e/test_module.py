# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The bridge is a module: it may come when the tracer is there already, and must be able to go."""
from . import lab
from .harness import test
from .lab import CLIENT4, WEB4
from .proc import Traffic, expect, expect_that, run, send, wait_for
from .test_every import udp_way
from .test_tcp import way_of
from .tool import Slowpkt, brief

BRIDGE = "br_handle_frame_finish"


def is_loaded():
    with open("/proc/modules", encoding="ascii") as f:
        return any(line.startswith("bridge ") for line in f)


@test
def bridge_module_comes_and_goes():
    lab.down()
    run("rmmod", "bridge")
    try:
        with Slowpkt("-j", "-v", "-l", "0", "-u", "-s", 5950) as tool:
            expect("how the bridge's hop is attached without the module", tool.ask_hits()[BRIDGE][1], "not attached")
            expect_that("this is said", any(line.startswith("slowpkt: not attached") and BRIDGE in line
                                            for line in tool.err.all), tool.err.all[-5:])
            lab.up()
            wait_for("the hop is attached", lambda: tool.ask_hits()[BRIDGE][1] == "kprobe")
            with Traffic("web", "udp-echo", WEB4, 5950):
                send("client", "udp-rr", WEB4, 5950, "-n", 3)
                tool.await_packets(3, lambda p: p["end"] == "read")
            for packet in tool.finals():
                expect("dst", packet["dst"], CLIENT4)
                expect(f"the way of {brief([packet])}", way_of(packet), udp_way(False, 4))
            lab.down()
            run("rmmod", "bridge")
            expect("the module is loaded", is_loaded(), False)
    finally:
        lab.down()
        lab.up()
