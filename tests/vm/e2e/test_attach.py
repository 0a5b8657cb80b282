# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The ladder of ways to attach a hop: on each rung the answers are the same."""
import subprocess

from .harness import quietly, test
from .lab import WEB4, WEB6
from .proc import expect, expect_that, status_of
from .test_ends import drop_behind_delay
from .test_idle import FUNCTIONS, TRACEPOINTS
from .test_nic import check_conversation, container
from .test_tcp import Connection, check_connection, delays
from .test_udp import read_slowly
from .tool import PATIENCE, SLOWPKT, Slowpkt

ARTICLES = {"ip_rcv_core": "ip_rcv", "ip6_rcv_core": "ipv6_rcv"}


def how_attached(tool):
    return {target: how for target, (_, how, _) in tool.ask_hits().items()}


def without_btf():
    return (dict.fromkeys(TRACEPOINTS, "raw_tp") | dict.fromkeys(FUNCTIONS, "kprobe") |
            {"br_handle_frame_finish": "kprobe", "__skb_gso_segment": "not attached"})


@test
def kprobe_attaches_all_hops_without_btf(kprobe):
    expect("how each hop is attached", how_attached(kprobe.tool), without_btf())
    # what the kernel says, not what the tool says
    with open("/sys/kernel/debug/kprobes/list", encoding="ascii") as f:
        probed = {line.split()[2].partition("+")[0] for line in f}
    expect("kprobes", probed, {*FUNCTIONS, "br_handle_frame_finish"})
    expect_that("the hop that cannot be is said", any("not attached" in line and "__skb_gso_segment" in line
                                                      for line in kprobe.tool.err.all), kprobe.tool.err.all)


@test
def kprobe_udp_slow_reader(kprobe):
    quietly(lambda: read_slowly((kprobe,), WEB4, 6100))
    quietly(lambda: read_slowly((kprobe,), WEB6, 6106))


@test
def kprobe_container_host_tcp(kprobe):
    with delays():
        quietly(lambda: check_connection(Connection(kprobe, 4, 8100), 4))


@test
def kprobe_container_host_tcp_ipv6(kprobe):
    with delays():
        quietly(lambda: check_connection(Connection(kprobe, 6, 8100), 6))


@test
def kprobe_nic_to_container_and_back(kprobe):
    with container() as server, delays():
        quietly(lambda: check_conversation(kprobe, server))


@test
def kprobe_dropped_by_netfilter(kprobe):
    quietly(lambda: drop_behind_delay(kprobe))


@test
def article_functions_do_it_too(article):
    expected = without_btf() | {ours: f"kprobe on {theirs}" for ours, theirs in ARTICLES.items()}
    expect("how each hop is attached", how_attached(article.tool), expected)
    with delays():
        quietly(lambda: check_connection(Connection(article, 4, 8110), 4))
        quietly(lambda: check_connection(Connection(article, 6, 8110), 6))


@test
def what_the_kernel_lacks_is_left_out_or_done_by_the_article():
    """
    By a list of symbols with a copy in a function's place that is not there after all, or with a part only.
    The list is asked where the kernel's own BTF does not say which functions there are.
    """
    with open("/proc/kallsyms", encoding="ascii") as f:
        symbols = f.read()
    for name, instead in (("ip_rcv_core", "ip_rcv_core.isra.0"), ("ip6_rcv_core", "ip6_rcv_core.part.0"),
                          ("tcp_v6_rcv", "tcp_v6_rcv.part.0")):
        symbols = symbols.replace(f" {name}\n", f" {instead}\n")
    with open("/tmp/kallsyms", "w", encoding="ascii") as f:
        f.write(symbols)
    with Slowpkt("-v", "--btf=/sys/kernel/btf/vmlinux", "-t", "-l", "input=1s", under=[
            "unshare", "--mount", "sh", "-c", 'mount --bind /tmp/kallsyms /proc/kallsyms && exec "$@"', "sh"]) as tool:
        how = how_attached(tool)
    expect("how each is attached", how, {"ip_rcv_core": "kprobe on ip_rcv", "ip6_rcv_core": "kprobe on ipv6_rcv",
                                         "tcp_v4_rcv": "kprobe", "tcp_v6_rcv": "not attached",
                                         "kfree_skb": "raw_tp"})
    expect_that("what is left out", "slowpkt: not attached: tcp_v6_rcv (tcp_v6_rcv): the kernel has no such function, "
                "or does not let it be traced" in tool.err.all, tool.err.all)


@test
def with_every_filter_each_hop_is_attached():
    """What is not asked for is no code: the most that the verifier can be given is all of it, with probe reads."""
    with Slowpkt("--attach=kprobe", "-p", "80", "-d", "80", "-s", "1-65535", "-H", "10.0.0.0/8", "-H", WEB6, "--src",
                 "::/0", "--seq", "7", "-N", "web", "-N", "client", "-i", "eth0", "-i", "lo", "--pid", "1", "-l",
                 "30ms", "-l", "qdisc=20ms", "-l", "gro=20ms", "-l", "rps=20ms") as tool:
        said = [line for line in tool.err.all if "refused" in line or "not attached" in line]
    expect("what is left out", [line.split(":")[1:3] for line in said],
           [[" not attached", " __skb_gso_segment (__skb_gso_segment)"]])


@test
def without_any_way_it_fails_and_says_so():
    few = "-all,+bpf,+perfmon,+sys_resource,+setpcap"
    # Debian's level 3 takes kprobes from all but CAP_SYS_ADMIN
    subprocess.run(["sysctl", "-qw", "kernel.perf_event_paranoid=3"], check=True)
    status, out, err = status_of(["setpriv", f"--bounding-set={few}", "--inh-caps=-all", SLOWPKT,
                                  "--attach=kprobe", "-u", "-l", "socket=3ms"], PATIENCE)
    expect(f"exit status, with {err!r}", status, 1)
    expect("stdout", out, "")
    lines = err.splitlines()
    for name in ("__udp_enqueue_schedule_skb", "skb_consume_udp"):
        expect_that(f"why {name} is not attached", any(name in line and "kprobe: Permission denied" in line
                                                       for line in lines), lines)
    expect_that("that this is the end, and what to do", "cannot trace" in lines[-1] and "--check" in lines[-1], lines)
