# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Programs under test and beside it: started, waited for by condition, ended."""
import ctypes
import os
import signal
import subprocess
import threading
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TRAFFIC = os.path.join(TOP, "build/tests/traffic")
MS = 1_000_000  # ns
CLONE_NEWNET = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """A test's assertion does not hold; says what was expected and what was seen."""


def expect(what, seen, expected):
    if seen != expected:
        raise Failure(f"{what}: expected {expected!r}, saw {seen!r}")


def expect_that(what, holds, seen):
    if not holds:
        raise Failure(f"{what}: saw {seen}")


def wait_for(what, condition, seconds=20):
    """Polls until the condition gives something true, and returns that."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise Failure(f"{what}: did not come about in {seconds} s (last: {value!r})")
        time.sleep(0.02)


def enter_netns(netns):
    fd = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    if _libc.setns(fd, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), f"setns {netns}")
    os.close(fd)


def run(*argv, netns=None):
    """Runs a program that must succeed; returns its output."""
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          stdin=subprocess.DEVNULL,
                          preexec_fn=(lambda: enter_netns(netns)) if netns else None)
    if done.returncode:
        raise Failure(f"{' '.join(argv)}: status {done.returncode}: {done.stdout.strip()}")
    return done.stdout


class Lines:
    """What a program writes, line by line, as it comes."""

    def __init__(self, pipe):
        self.all = []
        self.ended = False
        self._pipe = pipe
        self._news = threading.Condition()
        self._thread = threading.Thread(target=self._collect, daemon=True)
        self._thread.start()

    def _collect(self):
        for line in self._pipe:
            with self._news:
                self.all.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self.ended = True
            self._news.notify_all()

    def wait(self, what, condition, seconds=20):
        """Waits until condition(list of all lines) is true, and returns what it gave."""
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                value = condition(self.all)
                if value:
                    return value
                left = deadline - time.monotonic()
                if left <= 0 or self.ended:
                    why = "its output ended" if self.ended else f"not within {seconds} s"
                    raise Failure(f"{what}: {why}; its last lines: {self.all[-3:]}")
                self._news.wait(left)

    def wait_line(self, prefix, seconds=20, count=1):
        """Waits for the count-th line that begins so."""
        def find(lines):
            found = [line for line in lines if line.startswith(prefix)]
            return found[count - 1] if len(found) >= count else None
        return self.wait(f"a line '{prefix}…'", find, seconds)

    def join(self):
        self._thread.join(10)


class Process:
    """A program whose output is collected."""

    def __init__(self, argv, netns=None, **more):
        self.argv = argv
        self.popen = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="surrogateescape", bufsize=1,
            preexec_fn=(lambda: enter_netns(netns)) if netns else None, **more)
        self.pid = self.popen.pid
        self.out = Lines(self.popen.stdout)
        self.err = Lines(self.popen.stderr)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.kill()

    def say(self, line=""):
        self.popen.stdin.write(line + "\n")
        self.popen.stdin.flush()

    def signal(self, number):
        self.popen.send_signal(number)

    def wait(self, seconds=20):
        """Waits for the program's end; returns its exit status."""
        try:
            status = self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            raise Failure(f"{' '.join(self.argv)}: still runs after {seconds} s") from None
        self.out.join()
        self.err.join()
        return status

    def kill(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.popen.wait()
        self.out.join()  # else the pipes would be closed under the threads that read them
        self.err.join()
        for pipe in (self.popen.stdin, self.popen.stdout, self.popen.stderr):
            try:
                pipe.close()
            except (OSError, ValueError):
                pass


class Traffic(Process):
    """The traffic program in a netns; started means ready."""

    def __init__(self, netns, *argv):
        super().__init__([TRAFFIC, *map(str, argv)], netns=netns)
        try:
            words = self.out.wait_line("ready").split()
        except Failure as failure:
            self.kill()
            raise Failure(f"{failure}; stderr: {self.err.all}") from None
        self.tid = int(words[2])

    def go(self):
        """Lets one with --wait go on."""
        self.say()

    def done(self, seconds=60):
        self.out.wait_line("done", seconds)
        return self

    def close(self):
        """Lets one with --hold end, or one with --wait give up."""
        self.popen.stdin.close()
        expect(f"status of {' '.join(self.argv)} {self.err.all}", self.wait(), 0)

    def events(self, kind):
        return [tuple(map(int, line.split()[1:])) for line in self.out.all
                if line.split()[0] == kind]

    def await_events(self, kind, count, seconds=20):
        self.out.wait_line(kind + " ", seconds, count)
        return self.events(kind)


def send(netns, *argv, seconds=60):
    """Runs a traffic program to its end; returns it for its events."""
    with Traffic(netns, *argv) as traffic:
        traffic.done(seconds)
        expect(f"status of {' '.join(traffic.argv)}", traffic.wait(), 0)
        return traffic


def status_of(argv, seconds=60, preexec_fn=None):
    """Exit status, stdout and stderr of a program."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, timeout=seconds,
                          preexec_fn=preexec_fn)
    return done.returncode, done.stdout, done.stderr


INTERRUPT = signal.SIGINT
