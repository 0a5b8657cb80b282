# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""--check: what can be attached here, and what is lost, against golden/check-KERNEL."""
import os

from .harness import test
from .lab import KERNEL
from .proc import expect, expect_that, status_of
from .tool import PATIENCE, SLOWPKT, Slowpkt

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden")
NAME = "7" if KERNEL[0] == 7 else ".".join(map(str, KERNEL))


def check(*args, under=()):
    """Exit status, the first line, the rest, stderr."""
    status, out, err = status_of([*under, SLOWPKT, "--check", *args], PATIENCE)
    first, _, rest = out.partition("\n")
    return status, first, rest, err


@test
def check_tells_how_each_hop_is_attached():
    status, first, rest, err = check()
    expect_that("the first line names the kernel", first.split()[3] == os.uname().release, first)
    with open(os.path.join(GOLDEN, f"check-{NAME}"), encoding="ascii") as f:
        expected = f.read()
    changed = [pair for pair in zip(expected.splitlines(), rest.splitlines()) if pair[0] != pair[1]]
    expect_that(f"golden/check-{NAME}; what differs (expected, seen)", rest == expected, changed or rest)
    expect("exit status and stderr", (status, err), (0, ""))
    # all is detached again
    with open("/sys/kernel/debug/kprobes/list", encoding="ascii") as f:
        expect("kprobes", f.read(), "")
    with open("/sys/kernel/tracing/enabled_functions", encoding="ascii") as f:
        expect("functions with a program", f.read(), "")


def way_of_reads(*args):
    """As slowpkt -v says; with few hooks, which load fast."""
    with Slowpkt("-v", "-u", "-l", "socket=100ms", *args) as tool:
        return tool.ask_hits()["skb_consume_udp"][1]


@test
def reads_are_met_by_kprobe_where_tasks_are_preempted_in_programs():
    mode = "/sys/kernel/debug/sched/preempt"
    if "PREEMPT" not in os.uname().version:
        return expect("without preemption", way_of_reads(), "fentry")
    with open(mode, encoding="ascii") as f:
        modes = f.read().split()
    before, = [m[1:-1] for m in modes if m[0] == "("]
    try:
        for m in [m.strip("()") for m in modes]:
            with open(mode, "w", encoding="ascii") as f:
                f.write(m)
            expect(f"in mode {m}", way_of_reads(), "kprobe" if m in ("full", "lazy") else "fentry")
            if m == "full":
                expect("as the user wants it", way_of_reads("--attach=btf"), "fentry")
    finally:
        with open(mode, "w", encoding="ascii") as f:
            f.write(before)


@test
def check_tells_what_few_capabilities_cost():
    few = "-all,+bpf,+perfmon,+sys_resource,+setpcap"
    with open("/proc/sys/kernel/perf_event_paranoid", "w", encoding="ascii") as f:
        f.write("3")
    status, _, rest, _ = check(under=["setpriv", f"--bounding-set={few}", "--inh-caps=-all"])
    expect("exit status", status, 0)
    expect_that("reads can do without", any(l.split()[1:] == ["skb_consume_udp", "fentry"] for l in rest.splitlines()),
                rest)
    expect_that("what is lost without kprobes",
                "not attached: kprobe: Permission denied; the stage bridge is seen as a whole only\n" in rest, rest)
    line, = [line for line in rest.splitlines() if line.startswith("kprobes")]
    expect("verdict on kprobes", line.split(maxsplit=2)[1:],
           ["poor", "not allowed: add CAP_SYS_ADMIN, or sysctl kernel.perf_event_paranoid=2 (it is 3)"])


@test
def check_without_capabilities_fails():
    without = "-sys_admin,-bpf"
    status, _, rest, err = check(under=["setpriv", f"--bounding-set={without}", f"--inh-caps={without}"])
    expect("exit status", status, 1)
    expect_that("the remedy is named, in both", "--privileged" in err and "--privileged" in rest, (rest, err))
    jobs = [line.split(maxsplit=2)[:3] for line in rest.splitlines() if " job " in line]
    expect("verdict on the jobs", [words[2].split()[0] for words in jobs], ["NO", "NO"])
