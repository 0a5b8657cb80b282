# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Surroundings in which nothing can be traced, each told apart. The last tests: lockdown stays."""
import os
import subprocess

from .harness import test
from .proc import expect, expect_that, status_of
from .tool import SLOWPKT

LOCKDOWN = "/sys/kernel/security/lockdown"


def check_refused(argv, *words):
    status, out, err = status_of(argv)
    expect(f"exit status of {argv}, which said {err!r}", status, 1)
    expect("stdout", out, "")
    expect("lines on stderr", len(err.splitlines()), 1)
    expect_that(f"the message has {words}", all(word in err for word in words), err)


def lock_down(how):
    if not os.path.exists(LOCKDOWN):
        subprocess.run(["mount", "-t", "securityfs", "none", "/sys/kernel/security"], check=True)
    with open(LOCKDOWN, "w", encoding="ascii") as f:
        f.write(how)


@test
def a_capability_that_is_missing_is_named():
    without = "-sys_admin,-bpf"
    check_refused(["setpriv", f"--bounding-set={without}", f"--inh-caps={without}", SLOWPKT],
                  "CAP_BPF", "--privileged")
    without = "-sys_admin,-perfmon"
    check_refused(["setpriv", f"--bounding-set={without}", f"--inh-caps={without}", SLOWPKT],
                  "CAP_PERFMON", "--privileged")


@test
def bpf_and_perfmon_are_enough():
    few = "-all,+bpf,+perfmon,+setpcap"
    status, _, err = status_of(["setpriv", f"--bounding-set={few}", "--inh-caps=-all", SLOWPKT, "-D", "100ms"])
    expect(f"exit status, with {err!r}", status, 0)
    expect_that("it traced", "slowpkt: tracing" in err, err)


@test
def a_kernel_without_btf_is_said():
    check_refused(["unshare", "--mount", "sh", "-c", f"mount -t tmpfs none /sys/kernel/btf && exec {SLOWPKT}"],
                  "BTF", "CONFIG_DEBUG_INFO_BTF")


@test
def lockdown_is_said_if_it_forbids():
    lock_down("integrity")
    status, _, err = status_of([SLOWPKT, "-D", "100ms"])
    expect(f"exit status under integrity, with {err!r}", status, 0)
    lock_down("confidentiality")
    check_refused([SLOWPKT], "locked down", "lockdown=integrity")
