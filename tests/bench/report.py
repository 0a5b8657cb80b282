#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
What the bench measured, as a table, and whether slowpkt's goals are met.

usage: report.py RESULTS JSON     reads RESULTS, as guest wrote it; writes JSON

Exit status: 0 all goals are met, 1 not.
"""
import json
import os
import sys

from figures import MissingError, Figures

TRIPS = [  # in the order of the table: key, what is attached
    ("nothing", "nothing attached"),
    ("again", "nothing attached, again at the end"),
    ("floor", "empty programs on slowpkt's hooks, attached as slowpkt does"),
    ("kprobes", "empty kprobes at the same places"),
    ("none", "slowpkt -p 9999 -l 100ms: nothing matches"),
    ("netns", "slowpkt -N web -l 100ms: all matches, nothing is slow"),
    ("match", "slowpkt -p PORT -l 100ms: all matches, nothing is slow"),
    ("oneline", "slowpkt -p PORT -l 0 -1: all is printed into a pipe"),
    ("oneline-way", "  of this without slowpkt's own process"),
    ("path", "slowpkt -p PORT -l 0: with its path"),
    ("json", "slowpkt -p PORT -l 0 -j: as JSON"),
    ("nosocket", "slowpkt -u -d 53 -l socket=3ms: nothing matches"),
    ("socket", "slowpkt -u -l socket=3ms: all matches, nothing is slow"),
    ("noudplatency", "udplatency in bpftrace: nothing matches"),
    ("udplatency", "udplatency in bpftrace: half matches, nothing is slow"),
    ("nopkgtool", "pkgtool in bpftrace: nothing matches"),
    ("pkgtool", "pkgtool in bpftrace: all TCP matches, and is printed"),
    ("pkgtool-way", "  of this without bpftrace's own process"),
    ("tcprtt", "bcc's tcprtt (libbpf-tools): a histogram of the segments' RTT"),
    ("tcptop", "bcc's tcptop (libbpf-tools): bytes per connection"),
    ("nopwru", "pwru on the same functions: nothing matches"),
    ("pwru", "pwru on the same functions: all matches, and is printed"),
]
FLAT = [  # key, the key to compare with, what is different
    ("flows-match-1000", "flows-match-1", "1 000 flows that match, not 1"),
    ("flows-match-100000", "flows-match-1", "100 000 flows that match, not 1"),
    ("flows-none-1000", "flows-none-1", "1 000 flows that do not match, not 1"),
    ("flows-none-100000", "flows-none-1", "100 000 flows that do not match, not 1"),
    ("ports16", "match", "16 ports, not 1"),
    ("hosts16", "hosts1", "16 hosts, not 1"),
    ("nohosts16", "nohosts1", "16 hosts, none of which matches, not 1"),
    ("netns16", "netns", "16 netns, not 1"),
    ("full", "empty", "a table full of waiting packets, not an empty one"),
]
TENTH = 1.10


def goals(f):
    """(what, figure, limit, unit) of each; figure: a function, which may find something missing."""
    for proto in ("udp", "tcp"):
        yield f"nothing matches, {proto}: to the empty programs", lambda p=proto: f.ratio("none", p), 2.0, "×"
        yield (f"nothing matches, {proto}: to the empty kprobes",
               lambda p=proto: f.ratio("none", p, "kprobes"), 1.0, "×")
    for proto in ("udp", "tcp"):
        yield f"matches, not slow, {proto}: to the empty programs", lambda p=proto: f.ratio("match", p), 3.0, "×"
    yield ("a matched packet, tcp: to pkgtool in bpftrace without its own process",
           lambda: f.ratio("match", "tcp", "pkgtool-way"), 1 / 12, "×")
    yield "a printed packet (-1), tcp: to pkgtool in bpftrace", lambda: f.ratio("oneline", "tcp", "pkgtool"), 1 / 12, "×"
    yield ("-u -l socket=3ms: to udplatency in bpftrace",
           lambda: f.ratio("socket", "udp", "udplatency"), 0.3, "×")
    yield ("-u -d 53 -l socket=3ms: to udplatency in bpftrace, nothing matches",
           lambda: f.ratio("nosocket", "udp", "noudplatency"), 0.3, "×")
    yield ("from start to ready: to pkgtool in bpftrace",
           lambda: f.one("ready", "match") / f.one("ready", "nopkgtool"), 1 / 20, "×")
    for proto in ("udp", "tcp"):
        yield (f"the bench itself: nothing attached, {proto}, at the end to the beginning",
               lambda p=proto: max(f.trip("again", p), f.trip("nothing", p)) / min(f.trip("again", p), f.trip("nothing", p)),
               1.005, "×")
    yield ("the bench itself: runs of the empty programs to those of slowpkt's",
           lambda: max(f.one("runs", "floor"), f.one("runs", "none")) / min(f.one("runs", "floor"), f.one("runs", "none")),
           1.01, "×")
    for key in ("oneline", "path", "json"):
        yield f"to print a packet ({key}), in user space", lambda k=key: f.one("print", k), 30000, "instructions"
    yield "resident, without the maps", lambda: f.one("memory", "slowpkt") / 1024, 12, "MB"
    yield "the program's size", lambda: os.stat("build/slowpkt").st_size / 1e6, 2, "MB"
    for key, base, what in FLAT:
        for proto in ("udp", "tcp"):
            if proto == "udp" or not (key.startswith("flows") or key == "full"):
                yield f"flat: {what}, {proto}", lambda k=key, b=base, p=proto: f.ratio(k, p, b), TENTH, "×"


def judge(f):
    verdicts = []
    for what, figure, limit, unit in goals(f):
        try:
            value = figure()
        except MissingError as missing:
            verdicts.append({"goal": what, "figure": None, "limit": limit, "unit": unit, "met": False,
                             "why": f"not measured: {missing}"})
            continue
        verdicts.append({"goal": what, "figure": round(value, 4), "limit": limit, "unit": unit, "met": value <= limit})
    return verdicts


def short(number):
    return f"{number:,.0f}".replace(",", " ")


def cells(f, key, proto):
    """Added by this row, and that as a multiple of the empty programs' part."""
    try:
        if key == "nothing":
            return short(f.trip(key, proto)), ""
        return "+" + short(f.added(key, proto)), f"{f.ratio(key, proto):.2f}"
    except MissingError:
        return "", ""


def print_trips(f):
    print(f"A round trip client - host - container on {f.kernel}, in instructions:\n")
    print(f"{'':66}{'UDP':>9}{'×empty':>8}{'TCP':>10}{'×empty':>8}")
    for key, what in TRIPS:
        if key in f.absent:
            print(f"{what:66}  does not run: {f.absent[key]}")
            continue
        (udp, udp_ratio), (tcp, tcp_ratio) = cells(f, key, "udp"), cells(f, key, "tcp")
        print(f"{what:66}{udp:>9}{udp_ratio:>8}{tcp:>10}{tcp_ratio:>8}" if udp or tcp else f"{what:66}  NOT MEASURED")
    print()


def print_rest(f):
    lines = [(f"start to ready, {what}", ("ready", key), "instructions", 1000) for what, key in
             (("slowpkt", "match"), ("slowpkt -u -l socket=3ms", "socket"), ("pkgtool in bpftrace", "nopkgtool"),
              ("udplatency in bpftrace", "noudplatency"))]
    lines += [(f"resident, {what}", ("memory", key), "KB", 1) for what, key in
              (("slowpkt", "slowpkt"), ("pkgtool in bpftrace", "pkgtool"))]
    lines += [(what, ("table", key), "KB", 1) for what, key in
              (("slowpkt's table, in the kernel", "slowpkt"), )]
    lines += [(f"to print a packet, slowpkt {how}", ("printed", key), "instructions, the system calls' included", 1)
              for how, key in (("-1", "oneline"), ("with its path", "path"), ("-j", "json"))]
    lines += [(f"the same in user space alone, {how}", ("print", key), "instructions", 1)
              for how, key in (("-1", "oneline"), ("with its path", "path"), ("-j", "json"))]
    for what, (kind, key), unit, times in lines:
        try:
            print(f"{what:66}{short(f.one(kind, key) * times):>14} {unit}")
        except MissingError:
            print(f"{what:66}  NOT MEASURED")
    print(f"{'build/slowpkt':66}{short(os.stat('build/slowpkt').st_size):>14} bytes")
    for kind, key, text in f.notes:
        print(f"{kind}: {key}: {text}")
    print(f"\nWhat the verifier goes through, in instructions: {short(sum(f.programs.values()))}")
    for name, count in sorted(f.programs.items(), key=lambda item: -item[1]):
        print(f"  {name:40}{short(count):>10}")
    print()


def print_goals(verdicts):
    for v in verdicts:
        figure = "not measured" if v["figure"] is None else f"{v['figure']:.4g}" if v["figure"] < 1000 else short(v["figure"])
        limit = f"{v['limit']:.4g}" if v["limit"] < 1000 else short(v["limit"])
        print(f"{'met    ' if v['met'] else 'NOT MET'}  {v['goal']:74}{figure:>12} of {limit} {v['unit']}"
              + (f": {v['why']}" if "why" in v else ""))
    missed = sum(not v["met"] for v in verdicts)
    print(f"\n{len(verdicts) - missed} of {len(verdicts)} goals met")


def main(results, target):
    f = Figures(results)
    verdicts = judge(f)
    print_trips(f)
    print_rest(f)
    print_goals(verdicts)
    with open(target, "w", encoding="utf-8") as out:
        json.dump({**f.as_dict(), "labels": dict(TRIPS), "bytes": os.stat("build/slowpkt").st_size,
                   "goals": verdicts, "met": all(v["met"] for v in verdicts)}, out, indent=1)
        out.write("\n")
    print(f"all of it: {target}")
    return 0 if all(v["met"] for v in verdicts) else 1


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__.strip())
    sys.exit(main(*sys.argv[1:]))
