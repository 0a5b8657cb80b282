# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What holds a packet that was received, in one place and for a time that is known."""
import contextlib
import ctypes
import fcntl
import mmap
import os
import select
import socket
import struct
import sys

from .proc import TOP, Failure, Process, expect_that, run

HOLDER, OTHER = 1, 0  # CPUs: what is to be held is there, and all else here
HOLD = os.path.join(TOP, "build/tests/hold")


@contextlib.contextmanager
def holding(cpu, ms):
    """This CPU lets what it has received wait so long each time before it works it off."""
    with Process([HOLD, str(cpu), str(ms)]) as hold:
        try:
            hold.out.wait_line("ready")
        except Failure as failure:
            raise Failure(f"{failure}; stderr: {hold.err.all}") from None
        yield


BUSY = """
import os, sys, time
cpu, ms = map(int, sys.argv[1:])
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
end = time.monotonic_ns() + ms * 1000000
print("busy", end, flush=True)
while time.monotonic_ns() < end:
    pass
os.sched_setaffinity(0, {1 - cpu})  # its own end takes time, too
"""


@contextlib.contextmanager
def busy_task(cpu, ms):
    """A task that this CPU leaves for no other one; gives the time of its end."""
    with Process([sys.executable, "-c", BUSY, str(cpu), str(ms)]) as busy:
        yield int(busy.out.wait_line("busy").split()[1])


@contextlib.contextmanager
def written(netns, dev, file, value):
    """A file of a device's in sysfs has a value; afterwards it is 0 again."""
    def write(text):
        path = f"/sys/class/net/{dev}/{file}"
        if netns:
            run("ip", "netns", "exec", netns, "sh", "-c", f"echo {text} >{path}")
        else:
            with open(path, "w", encoding="ascii") as f:
                f.write(str(text))
    write(value)
    try:
        yield
    finally:
        write(0)


def to_cpu(netns, dev, cpu):
    """RPS: another CPU goes on with all that the device has received."""
    return written(netns, dev, "queues/rx-0/rps_cpus", f"{1 << cpu:x}")


def gro_waits(netns, dev, ms):
    """GRO holds a packet for so long if no other one of its flow comes."""
    return written(netns, dev, "gro_flush_timeout", ms * 1_000_000)


@contextlib.contextmanager
def on_cpu(cpu):
    """This thread runs there only: what it sends is received there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {cpu})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


class AbsentPage:
    """
    A page of memory that is not there until it is given: who writes to it waits, in the
    kernel too, such as a reader of a socket, which it has locked. By userfaultfd.
    """
    SYSCALL, API, REGISTER, ZEROPAGE = 323, 0xC018AA3F, 0xC020AA00, 0xC020AA04

    def __init__(self):
        self.memory = mmap.mmap(-1, mmap.PAGESIZE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))
        self.fd = ctypes.CDLL(None, use_errno=True).syscall(self.SYSCALL, os.O_CLOEXEC | os.O_NONBLOCK)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "userfaultfd")
        fcntl.ioctl(self.fd, self.API, struct.pack("QQQ", 0xAA, 0, 0))
        fcntl.ioctl(self.fd, self.REGISTER, struct.pack("QQQQ", self.start, mmap.PAGESIZE, 1, 0))

    def await_writer(self, seconds=20):
        """Until somebody waits for the page."""
        expect_that("somebody writes to the page", select.select([self.fd], [], [], seconds)[0], seconds)

    def give(self):
        fcntl.ioctl(self.fd, self.ZEROPAGE, struct.pack("QQQq", self.start, mmap.PAGESIZE, 0, 0))

    def close(self):
        """Who still waits for it goes on."""
        os.close(self.fd)


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return ~total & 0xffff


def datagram(src, sport, dst, dport, payload):
    """A UDP datagram in an IPv4 packet; addresses as text, the payload of even length."""
    ends = socket.inet_aton(src) + socket.inet_aton(dst)
    udp = struct.pack("!HHHH", sport, dport, 8 + len(payload), 0)
    sum_udp = checksum(ends + struct.pack("!HH", 17, 8 + len(payload)) + udp + payload)
    udp = udp[:6] + struct.pack("!H", sum_udp) + payload
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 4711, 0, 64, 17, 0) + ends
    return ip[:10] + struct.pack("!H", checksum(ip)) + ip[12:] + udp


class Tap:
    """A tap device, tap0, 10.77.0.1/24: what is written to it the host has received from 10.77.0.2."""
    MAC = "02:00:00:00:77:01"
    PLAIN, NAPI, FRAGS = 0, 0x10, 0x30  # how it hands packets to the stack: IFF_NAPI, IFF_NAPI_FRAGS

    def __init__(self, way):
        tunsetiff, iff_tap, iff_no_pi = 0x400454CA, 2, 0x1000
        run("modprobe", "tun")
        self.fd = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(self.fd, tunsetiff, struct.pack("16sH22x", b"tap0", iff_tap | iff_no_pi | way))
        run("ip", "link", "set", "tap0", "address", self.MAC)
        run("ip", "addr", "add", "10.77.0.1/24", "dev", "tap0")
        run("ip", "link", "set", "tap0", "up")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        os.close(self.fd)

    def receive(self, packet):
        header = bytes.fromhex(self.MAC.replace(":", "")) + b"\x02\0\0\0\x77\x02" + b"\x08\0"
        os.write(self.fd, header + packet)
