# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""What holds a packet that was received, in one place and for a time that is known."""
import contextlib
import fcntl
import os
import socket
import struct
import threading

from .proc import TOP, Failure, Process, enter_netns, run

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


def in_netns(netns, what):
    """What a function gives in a netns, in a thread of its own."""
    def call():
        try:
            if netns:
                enter_netns(netns)
            result.append(what())
        except Exception as error:  # the caller's to see
            errors.append(error)
    result, errors = [], []
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return result[0]


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
