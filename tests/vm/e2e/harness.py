# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
The runner. A test is a function; its arguments name the tracers that it wants to run
(TRACERS) and each is handed to it as a View. A tracer goes on from one test to the
next that wants it, because loading it is slow under emulation.
"""
import inspect
import os
import signal
import sys
import time
import traceback

from . import lab
from .proc import Failure, expect_that
from .tool import Slowpkt, brief

TRACERS = {
    "idle": ["-j", "-v", "-l", "100ms"],
    "slow": ["-j", "-l", "15ms"],
    "socket": ["-j", "-v", "-u", "-l", "socket=15ms"],
    "every": ["-j", "-l", "0"],
    "drops": ["-j", "-l", "drop=0"],
    "arrivals": ["-j", "-l", "15ms", "-l", "gro=15ms", "-l", "rps=15ms"],
    "kprobe": ["-j", "-v", "-l", "15ms", "--attach=kprobe"],
    "article": ["-j", "-v", "-l", "15ms", "--attach=article"],
}
LIMIT = 240  # seconds for one test

TESTS = []
IRREVERSIBLE = set()


def test(function):
    TESTS.append(function)
    return function


def irreversible(function):
    """A test that leaves the VM such that no other one can run."""
    IRREVERSIBLE.add(function)
    return function


class Skip(Exception):
    """This test cannot be done here; says why."""


class Noisy(Exception):
    """The machine held the traffic up: what was measured says nothing. Says how much."""


class Missed(Exception):
    """
    A hop was not recorded. The kernel skips a program that interrupts its like (design
    §4.8), for a kprobe without counting it; so this may happen, but hardly ever twice.
    """


def quietly(attempt, tries=20):
    """Repeats what the machine's noise has spoilt. Any other failure is one."""
    noise, missed = [], []
    while len(noise) < tries and len(missed) < 2:
        try:
            return attempt()
        except Noisy as why:
            noise.append(str(why))
        except Missed as why:
            missed.append(str(why))
    if len(missed) == 2:
        raise Failure(f"hops are missing, and again: {missed}")
    raise Failure(f"the machine is too noisy: {noise}")


class View:
    """A running tracer, and of what it prints only what came since the test began."""

    def __init__(self, tool):
        self.tool = tool
        self.mark()

    def mark(self):
        """Forgets all that has ended before now."""
        if "100ms" not in self.tool.args:  # too much for a fence
            self.fence()
        self.start = len(self.tool.packets())

    def packets(self, where=lambda p: True):
        return [p for p in self.tool.packets()[self.start:] if where(p)]

    def await_packets(self, count, where=lambda p: True, seconds=20):
        return self.tool.await_packets(count, where, self.start, seconds)

    def finals(self, where=lambda p: True):
        """
        The packets that have ended. One that the sweep found still waiting was printed
        before, once, under the same number and with less time; that is checked here.
        """
        packets = self.packets(where)
        finals = [p for p in packets if p["end"] != "waiting"]
        ends = {p["pkt"]: p for p in finals}
        expect_that("no number twice", len(ends) == len(finals), brief(finals))
        waiting = [p for p in packets if p["end"] == "waiting"]
        expect_that("each waiting packet once", len({p["pkt"] for p in waiting}) == len(waiting), brief(waiting))
        for p in waiting:
            end = ends.get(p["pkt"])
            if end:
                expect_that("a waiting packet's end has its number, its start and a longer time",
                            end["mono_ns"] == p["mono_ns"] and end["total_ns"] >= p["total_ns"], brief([p, end]))
        return finals

    def exactly(self, count, where, seconds=20):
        """The packets that have ended, once all that ended before now are printed."""
        self.await_packets(count, lambda p: where(p) and p["end"] != "waiting", seconds)
        self.fence()
        found = self.finals(where)
        if len(found) != count:
            raise Failure(f"{self.tool.args}: expected {count} packets, saw {len(found)}: {brief(found)}")
        return found

    def fence(self):
        """Until all is printed that has ended before now."""
        seen = len(self.tool.packets())
        port = lab.fence_dropped() if "drop=0" in self.tool.args else lab.fence()
        self.tool.await_packets(1, lambda p: p["dport"] == port, seen)


class Running:
    """The tracers that run now."""

    def __init__(self):
        self.tools = {}

    def keep(self, names):
        """Stops the others, and starts those that are missing, side by side."""
        for name in [name for name in self.tools if name not in names]:
            self.stop(name)
        for name in [name for name in self.tools if self.tools[name].popen.poll() is not None]:
            self.tools.pop(name).kill()
        missing = [name for name in names if name not in self.tools]
        for name in missing:
            self.tools[name] = Slowpkt(*TRACERS[name])
        try:
            for name in missing:
                self.tools[name].await_ready()
        except Failure:
            for name in missing:
                self.tools.pop(name).kill()
            raise
        return {name: View(self.tools[name]) for name in names}

    def stop(self, name):
        tool = self.tools.pop(name)
        try:
            tool.stop()
        finally:
            tool.kill()

    def kill(self):
        for tool in self.tools.values():
            tool.kill()


def on_alarm(*_):
    raise Failure(f"the test took longer than {LIMIT} s")


def name_of(function):
    return function.__name__.replace("_", "-")


def run_one(function, running):
    """'ok', 'skip' or 'FAIL', and why."""
    signal.alarm(LIMIT)
    try:
        function(**running.keep(list(inspect.signature(function).parameters)))
    except Skip as why:
        return "skip", str(why)
    except Failure as why:
        return "FAIL", str(why)
    except Exception:  # a bug of the test, or a command that failed
        return "FAIL", traceback.format_exc()
    finally:
        signal.alarm(0)
    return "ok", ""


def select(modules, patterns):
    order = [module.__name__ for module in modules]
    tests = sorted(TESTS, key=lambda f: order.index(f.__module__))
    return [f for f in tests if not patterns or any(p in name_of(f) for p in patterns)]


def report(function, running, count, last):
    """Runs a test and says how it ended. Returns whether it is to be tried again: it failed, and may once."""
    start = time.monotonic()
    result, why = run_one(function, running)
    again = result == "FAIL" and not last
    if not again:
        count[result] += 1
    took = f" ({time.monotonic() - start:.1f} s)" if os.environ.get("E2E_TIMES") else ""
    print(f"{'again' if again else result} {name_of(function)}{took}" + (f": {why}" if why else ""), flush=True)
    return again


def main(modules, patterns):
    """
    Runs the modules' tests in their order. One that failed is tried once more behind all
    others, and the log says why: the CPUs are emulated, and shared with who knows whom;
    what is wrong fails twice. What is irreversible comes after that. Returns the exit status.
    """
    signal.signal(signal.SIGALRM, on_alarm)
    running = Running()
    count = {"ok": 0, "FAIL": 0, "skip": 0}
    try:
        tests = select(modules, patterns)
        failed = [f for f in tests if f not in IRREVERSIBLE and report(f, running, count, False)]
        for function in failed + [f for f in tests if f in IRREVERSIBLE]:
            report(function, running, count, True)
        for name in list(running.tools):
            try:
                running.stop(name)
            except Failure as why:
                count["FAIL"] += 1
                print(f"FAIL end-of-{name}: {why}", flush=True)
    finally:
        running.kill()
    skipped = f", {count['skip']} skipped" if count["skip"] else ""
    print(f"{count['ok']} passed, {count['FAIL']} failed{skipped}", flush=True)
    return 1 if count["FAIL"] or not count["ok"] else 0


if __name__ == "__main__":
    sys.exit("run tests/vm/e2e.py")
