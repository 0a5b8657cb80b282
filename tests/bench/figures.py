# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""The bench's figures, read from the lines that guest wrote: KIND KEY VALUE..., parted by tabs."""


class MissingError(Exception):
    """A figure that was not measured."""


class Figures:
    def __init__(self, path):
        self.kernel = "an unknown kernel"
        self.trips = {}     # {key: {proto: ns}}
        self.ones = {}      # {kind: {key: number}}
        self.programs = {}  # {name: instructions verified}
        self.absent = {}    # {key: why a tool does not run here}
        self.notes = []     # (kind, key, text)
        with open(path, encoding="utf-8") as f:
            for line in f:
                self._read(*line.rstrip("\n").split("\t"))

    def _read(self, kind, key, *values):
        if kind == "kernel":
            self.kernel = key
        elif kind == "trip":
            self.trips.setdefault(key, {})[values[0]] = int(values[1])
        elif kind == "program":
            self.programs[key] = int(values[0])
        elif kind == "absent":
            self.absent[key] = values[0]
        elif kind in ("note", "check"):
            self.notes.append((kind, key, values[0]))
        else:
            self.ones.setdefault(kind, {})[key] = int(values[0])

    def trip(self, key, proto):
        try:
            return self.trips[key][proto]
        except KeyError:
            raise MissingError(f"{key}, {proto}") from None

    def added(self, key, proto):
        """What it adds to a round trip; flows are compared among themselves."""
        base = "nothing"
        if key.startswith("flows-"):
            base = "flows-nothing-" + key.rsplit("-", 1)[1]
        elif key in ("empty", "full"):
            base = "flows-nothing-1"
        return self.trip(key, proto) - self.trip(base, proto)

    def ratio(self, key, proto, base="floor"):
        """What it adds, to what another row adds."""
        divisor = self.added(base, proto)
        if divisor <= 0:
            raise MissingError(f"{base}, {proto}, adds nothing to compare with")
        return self.added(key, proto) / divisor

    def one(self, kind, key):
        try:
            return self.ones[kind][key]
        except KeyError:
            raise MissingError(f"{kind} {key}") from None

    def as_dict(self):
        return {"kernel": self.kernel, "instructions_per_round_trip": self.trips, **self.ones,
                "verified_instructions": self.programs, "absent": self.absent,
                "notes": [" ".join(note) for note in self.notes]}
