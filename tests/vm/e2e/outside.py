#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
The client outside the VM. usage: outside.py PORT FOLDER

Does what the tests in the VM ask for in FOLDER: ask.N holds {"trips": …, "size": …,
"reply": …}, answer.N gets the times that it took. It speaks the protocol of
traffic.c: a request begins with its own length and that of its response.
"""
import json
import os
import socket
import struct
import sys
import time


def receive(connection, left):
    while left:
        part = connection.recv(min(left, 65536))
        if not part:
            raise OSError("closed")
        left -= len(part)


def converse(port, ask):
    """Times in seconds: of the connect, and of each trip."""
    start = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected = time.monotonic() - start
        trips = []
        for _ in range(ask["trips"]):
            start = time.monotonic()
            connection.sendall(struct.pack("!II", ask["size"], ask["reply"]).ljust(ask["size"], b"\0"))
            receive(connection, ask["reply"])
            trips.append(time.monotonic() - start)
    return {"connected": connected, "trips": trips}


def main(port, folder):
    number = 0
    while True:
        path = os.path.join(folder, f"ask.{number}")
        if not os.path.exists(path):
            time.sleep(0.02)
            continue
        with open(path, encoding="utf-8") as f:
            ask = json.load(f)
        try:
            answer = converse(port, ask)
        except OSError as error:
            answer = {"error": str(error)}
        target = os.path.join(folder, f"answer.{number}")
        with open(target + ".new", "w", encoding="utf-8") as f:
            json.dump(answer, f)
        os.rename(target + ".new", target)
        number += 1


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
