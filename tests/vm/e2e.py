#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""
The end-to-end tests: build/slowpkt on real traffic in a real kernel.

usage: e2e.py [PATTERN]...     runs the tests whose name contains a PATTERN, or all

To be run in the test VM, as root: tests/vm/vm run -- /usr/bin/python3 tests/vm/e2e.py.
tests/vm/run-e2e does that, with a NIC and somebody outside. It needs build/slowpkt
and build/tests/traffic. E2E_TIMES=1 says how long each test took.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from e2e import harness, lab  # noqa: E402
from e2e import (test_arrival, test_attach, test_check, test_copies, test_drops, test_every, test_ends,  # noqa: E402
                 test_filter, test_fragments, test_idle, test_journey_filter, test_limits, test_module, test_nat,
                 test_nic, test_output, test_receive_paths, test_retrans, test_reuse, test_send_paths, test_servers,
                 test_surroundings, test_tcp, test_total, test_udp, test_usage)

# In this order; neighbours share tracers, which take long to load: first those with `slow`.
MODULES = [test_usage, test_idle, test_total, test_tcp, test_fragments, test_nic, test_receive_paths, test_send_paths,
           test_servers, test_udp, test_ends, test_reuse, test_copies, test_every, test_retrans, test_drops,
           test_arrival, test_limits, test_nat, test_filter, test_journey_filter, test_output, test_attach, test_check,
           test_module, test_surroundings]

if __name__ == "__main__":
    if {"-h", "--help"} & set(sys.argv):
        print(__doc__.strip())
        sys.exit(0)
    if os.geteuid():
        sys.exit("e2e.py: it needs root, and the test VM: tests/vm/run-e2e")
    lab.up()
    sys.exit(harness.main(MODULES, sys.argv[1:]))
