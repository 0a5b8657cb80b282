# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Surroundings in which nothing can be traced, each told apart."""
import os
import shutil
import subprocess

from .harness import View, irreversible, quietly, test
from .lab import KERNEL, WEB4
from .proc import expect, expect_that, status_of
from .test_attach import how_attached, without_btf
from .test_check import check
from .test_ends import drop_behind_delay
from .test_tcp import Connection, check_connection, delays
from .test_udp import read_slowly
from .tool import SLOWPKT, Slowpkt

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
    few = ["setpriv", "--bounding-set=-all,+bpf,+perfmon,+setpcap", "--inh-caps=-all", SLOWPKT, "-D", "100ms",
           "-u", "-l", "socket=3ms"]  # a function and a tracepoint; test_check tells of the kprobe
    if KERNEL < (5, 11):  # BPF memory is locked memory there
        check_refused(["prlimit", "--memlock=65536:65536", *few], "locked memory", "64 KB", "ulimit -l unlimited",
                      "CAP_SYS_RESOURCE")
        # what the hard limit allows, it takes itself
        few = ["prlimit", "--memlock=65536:unlimited", *few]
    status, _, err = status_of(few)
    expect(f"exit status, with {err!r}", status, 0)
    expect_that("it traced", "slowpkt: tracing" in err, err)


WITHOUT_BTF = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/kernel/btf && exec "$@"', "sh"]


@test
def a_kernel_without_btf_is_said():
    check_refused([*WITHOUT_BTF, SLOWPKT], "BTF", "CONFIG_DEBUG_INFO_BTF", "--btf=FILE")


@test
def a_file_without_the_kernels_btf_is_said():
    check_refused([*WITHOUT_BTF, SLOWPKT, "--btf=/nonexistent"], "--btf=/nonexistent", "No such file")
    check_refused([*WITHOUT_BTF, SLOWPKT, "--btf=/etc/passwd"], "--btf=/etc/passwd", "not BTF", "pahole")
    check_refused([*WITHOUT_BTF, SLOWPKT, "--btf=/tmp"], "--btf=/tmp", "not BTF")
    # another kernel's: half of its functions have other names
    with open("/sys/kernel/btf/vmlinux", "rb") as f:
        btf = f.read()
    with open("/tmp/other.btf", "wb") as f:
        f.write(btf.replace(b"\0tcp_", b"\0pct_").replace(b"\0__", b"\0_x"))
    check_refused([*WITHOUT_BTF, SLOWPKT, "--btf=/tmp/other.btf"], "--btf=/tmp/other.btf", "another kernel's",
                  os.uname().release)


@test
def btf_from_a_file_gives_the_same_answers():
    shutil.copy("/sys/kernel/btf/vmlinux", "/tmp/btf")
    with Slowpkt("-j", "-v", "-l", "15ms", "--btf=/tmp/btf", under=WITHOUT_BTF) as tool:
        view = View(tool)
        expect("how each hop is attached", how_attached(tool), without_btf())
        quietly(lambda: read_slowly((view,), WEB4, 6200))
        with delays():
            quietly(lambda: check_connection(Connection(view, 4, 8200), 4))
        # with the drop reasons' names, which are in there too
        quietly(lambda: drop_behind_delay(view))


@test
def a_program_that_the_kernel_refuses_is_left_out():
    """Types without a field that only the program at the read asks for: the kernel refuses that one."""
    with open("/sys/kernel/btf/vmlinux", "rb") as f:
        btf = f.read()
    with open("/tmp/lacking.btf", "wb") as f:
        f.write(btf.replace(b"\0users\0", b"\0uzers\0"))
    status, _, table, err = check("--btf=/tmp/lacking.btf", under=WITHOUT_BTF)
    expect("exit status", status, 1)
    expect("stderr", err, "slowpkt: warning: this kernel refused probe_skb_consume_udp (Invalid argument); "
                          "the hop is left out\n")
    rows = [line.split(maxsplit=2) for line in table.splitlines()]
    how = {row[1]: row[2] for row in rows if len(row) == 3}
    expect("that hop, and two others", [how[name] for name in ("skb_consume_udp", "kfree_skb", "tcp_v4_rcv")],
           ["not attached: refused: Invalid argument; no wait in a UDP socket is seen", "raw_tp", "kprobe"])
    expect("the jobs", [row[2].split()[0] for row in rows if row[1:2] == ["job"]], ["NO", "ok"])


@test
@irreversible
def lockdown_is_said_if_it_forbids():
    lock_down("integrity")
    status, _, err = status_of([SLOWPKT, "-D", "100ms"])
    expect(f"exit status under integrity, with {err!r}", status, 0)
    lock_down("confidentiality")
    check_refused([SLOWPKT], "locked down", "lockdown=integrity")
