# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
Real servers in the container, asked by real clients: one delay in one place, and
exactly that stage shows it.
"""
import contextlib
import os
import signal
import socket
import struct
import tempfile
import time

from .harness import Noisy, quietly, test
from .lab import CLIENT4, WEB4, inum, netem, socket_in
from .proc import MS, Process, expect, expect_that, run, wait_for
from .tool import brief

HELD = 100  # ms
FAST = 15 * MS
HTTP, REDIS, DNS = 80, 6379, 53
PAGE = "Hello from the container\n"


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory(prefix="e2e-server-", dir="/tmp") as path:
        os.chmod(path, 0o755)
        yield path


def listens(proto, port):
    """What ss says of it: its state, the bytes in its queue, …"""
    return lambda: run("ss", f"-Hln{proto}", "sport", "=", f":{port}", netns="web")


@contextlib.contextmanager
def server(argv, proto, port):
    """A server in the container, from when it listens until it is told to end."""
    with Process(argv, netns="web") as process:
        wait_for(f"{argv[0]} listens", lambda: process.popen.poll() is not None or listens(proto, port)())
        expect(f"status of {argv[0]}, which ended: {process.err.all}", process.popen.poll(), None)
        yield process


@contextlib.contextmanager
def nginx():
    """With a page. All is named, so that nothing of the machine's own nginx is used."""
    with folder() as own:
        temp = "".join(f"{kind}_temp_path {own}/{kind};"
                       for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        with open(f"{own}/index.html", "w", encoding="ascii") as f:
            f.write(PAGE)
        with open(f"{own}/conf", "w", encoding="ascii") as f:
            f.write(f"daemon off; master_process off; pid {own}/pid; events {{ }}"
                    f"http {{ access_log off; {temp} server {{ listen {WEB4}:{HTTP}; root {own}; }} }}")
        with server(["nginx", "-e", f"{own}/log", "-c", f"{own}/conf"], "t", HTTP):
            yield


@contextlib.contextmanager
def redis():
    """The program of Debian's redis-tools, which is the server when it is called so."""
    with folder() as own:
        os.symlink("/usr/bin/redis-check-rdb", f"{own}/redis-server")
        with server([f"{own}/redis-server", "--bind", WEB4, "--port", str(REDIS), "--protected-mode", "no",
                     "--save", "", "--dir", own], "t", REDIS):
            yield


def dnsmasq():
    return server(["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--pid-file=", "--user=root",
                   "--no-resolv", "--no-hosts", "--bind-interfaces", f"--listen-address={WEB4}",
                   "--address=/slow.test/192.0.2.7"], "u", DNS)


def of_port(port):
    return lambda packet: port in (packet["sport"], packet["dport"])


def check_others(packet, stage):
    """All stages but one are fast."""
    times = [hop["at_ns"] for hop in packet["hops"]]
    for before, after, hop in zip(times, times[1:], packet["hops"][1:]):
        if hop["stage"] != stage and after - before >= FAST:
            raise Noisy(f"stage {hop['stage']} of {brief([packet])}")


def check_held(packet, dev, netns):
    if packet["slowest"]["stage"] != "qdisc":
        raise Noisy(brief([packet]))
    expect("slowest", [packet["slowest"][k] for k in ("from", "to", "dev", "netns")],
           ["__dev_queue_xmit", "dev_hard_start_xmit", dev, netns])
    expect_that(f"held {HELD} ms", packet["slowest"]["ns"] >= HELD * MS, brief([packet]))
    check_others(packet, "qdisc")
    expect("end", packet["end"], "delivered")


def check_conversation(view, port, ask, slow_side, dev, netns):
    """
    A client asks a server, where a qdisc holds what goes to one of both: all of that
    is told, and nothing of what goes to the other. slow_side: the field with the port.
    """
    view.mark()
    with netem(netns, dev, "delay", f"{HELD}ms"):
        ask()
        # the connection's last packet: after a FIN there comes nothing but its ACK
        wait_for("the connection's end", lambda: not run(
            "ss", "-Htn", "state", "connected", "exclude", "time-wait", f"( sport = :{port} )", netns="web"))
        view.await_packets(1, lambda p: p[slow_side] == port and "F" in p["flags"] and p["end"] != "waiting")
    view.fence()
    packets = view.finals(of_port(port))
    for packet in packets:
        if packet[slow_side] != port:
            raise Noisy(brief([packet]))
        check_held(packet, dev, inum(netns))
    flags = "".join(p["flags"] for p in packets)
    expect_that("a SYN, an answer or question, and a FIN are told",
                "S" in flags and "F" in flags and any(p["len"] for p in packets), brief(packets))
    return packets


def get_page():
    expect("the page", run("curl", "-qs", "--noproxy", "*", f"http://{WEB4}/", netns="client"), PAGE)


@test
def nginx_behind_a_slow_bridge_port(slow):
    with nginx():
        quietly(lambda: check_conversation(slow, HTTP, get_page, "dport", "vethc", None))


def set_and_get():
    redis_cli = ["redis-cli", "-h", WEB4, "-p", str(REDIS)]
    expect("SET", run(*redis_cli, "SET", "key", "value", netns="client"), "OK\n")
    expect("GET", run(*redis_cli, "GET", "key", netns="client"), "value\n")


@test
def redis_answers_slowly_out_of_its_container(slow):
    with redis():
        quietly(lambda: check_conversation(slow, REDIS, set_and_get, "sport", "eth0", "web"))


QUERY = struct.pack("!6H", 4711, 0x0100, 1, 0, 0, 0) + b"\4slow\4test\0" + struct.pack("!2H", 1, 1)


def ask_dns(meanwhile=lambda: None):
    """Times around the sending, and when the answer, which must be right, had come; and what meanwhile() gave."""
    with socket_in("client", socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(20)
        s.connect((WEB4, DNS))
        before = time.monotonic_ns()
        s.send(QUERY)
        given = meanwhile()
        answer = s.recv(512)
    back = time.monotonic_ns()
    expect("id and address of the answer", (answer[:2], answer[-4:]), (QUERY[:2], socket.inet_aton("192.0.2.7")))
    return before, given, back


def state_of(process):
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as f:
        return f.read().rpartition(")")[2].split()[0]


def stand_still(process):
    process.signal(signal.SIGSTOP)
    wait_for("it stands still", lambda: state_of(process) == "T")


def go_on_later(process):
    """Has the query wait; returns since when at the latest it does, and until when at least."""
    wait_for("the query is in the socket", lambda: int(listens("u", DNS)().split()[1]))
    seen = time.monotonic_ns()
    time.sleep(HELD / 1000)  # what is measured
    go_on = time.monotonic_ns()
    process.signal(signal.SIGCONT)
    return seen, go_on


def check_stopped(views, process):
    for view in views:
        view.mark()
    stand_still(process)
    before, (seen, go_on), back = ask_dns(lambda: go_on_later(process))
    for view in views:
        view.await_packets(1, lambda p: p["dport"] == DNS and p["end"] == "read")
        view.fence()
        packets = view.finals(of_port(DNS))
        if len(packets) > 1:
            raise Noisy(brief(packets))
        packet = packets[0]
        expect("ends, reader", [packet[k] for k in ("src", "dst", "dport", "end", "reader")],
               [CLIENT4, WEB4, DNS, "read", {"pid": process.pid, "tid": process.pid, "comm": "dnsmasq"}])
        expect("the slowest stage", packet["slowest"]["stage"], "socket")
        expect_that(f"its time, which is {go_on - seen} to {back - before}",
                    go_on - seen <= packet["slowest"]["ns"] <= back - before, brief([packet]))
        check_others(packet, "socket")


def check_quick(views):
    for view in views:
        view.mark()
    ask_dns()
    for view in views:
        view.fence()
        packets = view.packets(of_port(DNS))
        if packets:
            raise Noisy(brief(packets))


@test
def dnsmasq_that_stands_still(slow, socket):
    with dnsmasq() as process:
        quietly(lambda: check_quick((slow, socket)))
        quietly(lambda: check_stopped((slow, socket), process))
