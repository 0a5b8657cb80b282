# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Bad input and bad surroundings. Nothing is traced here."""
import os

from .harness import test
from .proc import expect, expect_that, status_of
from .tool import SLOWPKT

BAD = [
    (["-d", "80x"], ["-d", "80x"]),
    (["-d", "70000"], ["-d", "70000"]),
    (["-p", "90-80"], ["-p", "90-80"]),
    (["-l", "3 parsecs"], ["-l", "3 parsecs"]),
    (["-l", "30"], ["did you mean", "30ms"]),
    (["-l", "nostage=3ms"], ["nostage", "qdisc"]),
    (["-H", "10.0.0.256"], ["-H", "10.0.0.256"]),
    (["-N", "nosuch"], ["-N", "nosuch"]),
    (["-u", "--seq", "1"], ["--seq"]),
    (["--table", "1"], ["--table", "1"]),
    (["word"], ["word"]),
]


@test
def bad_input_is_refused_with_64():
    for args, words in BAD:
        status, out, err = status_of([SLOWPKT, *args])
        expect(f"exit status of slowpkt {args}, which said {err!r}", status, 64)
        expect(f"stdout of slowpkt {args}", out, "")
        expect_that(f"the message of slowpkt {args} has {words}", all(w in err for w in words), err)


@test
def not_root_is_said():
    def become_nobody():
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    status, out, err = status_of([SLOWPKT], preexec_fn=become_nobody)
    expect(f"exit status, with {err!r}", status, 1)
    expect("stdout", out, "")
    expect_that("the message names root", "root" in err, err)
    expect("lines on stderr", len(err.splitlines()), 1)
