# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#
# make             build/slowpkt
# make deps        installs what building and testing need (Debian, as root)
# make demo        shows it at work in a VM
# make test        unit tests, and end-to-end tests on four kernels (KERNELS="6.1 7": on those)
# make unit        unit tests only
# make bench       what slowpkt costs, measured in a VM (KERNEL=6.1)
# make shell       a root shell in the VM (KERNEL=6.1)
# make install     into $(DESTDIR)$(PREFIX)
# V=1 shows the commands; VMLINUX_H=FILE builds against a full dump.

VERSION := 0.1
PREFIX ?= /usr/local
CC ?= gcc
CLANG ?= clang
BPFTOOL ?= $(firstword $(shell command -v bpftool) /usr/sbin/bpftool)
LLVM_STRIP ?= llvm-strip
CFLAGS ?= -O2 -g
B := build
KERNEL ?= 6.1

ARCH := $(shell uname -m | sed 's/x86_64/x86/; s/aarch64/arm64/')
WARN := -Wall -Wextra -Werror
VMLINUX_DIR := $(if $(VMLINUX_H),$(B)/vmlinux,vmlinux)
override CFLAGS += -std=gnu11 $(WARN) -Iinclude -Isrc -I$(B) -D_GNU_SOURCE -DSLOWPKT_VERSION='"$(VERSION)"' -MMD -MP
# clang 14 drops fields of newer kernels' dumps without the ms extensions
BPF_CFLAGS := -g -O2 -target bpf -mcpu=v3 -D__TARGET_ARCH_$(ARCH) -Wall -Werror \
	-fms-extensions -Wno-microsoft-anon-tag -Iinclude -I$(VMLINUX_DIR) -Ibpf -MMD -MP
LIBS := $(shell pkg-config --static --libs libbpf libelf 2>/dev/null || echo -lbpf -lelf -lz)
LDFLAGS += $(if $(DYNAMIC),,-static)

# the definitions first: bpftool links a map's uses only to what it has seen
BPF_OBJS := $(patsubst %,$(B)/bpf/%.bpf.o,shared verdict look btf probe)
OBJS := $(patsubst src/%.c,$(B)/src/%.o,$(wildcard src/*.c))
TESTS := $(patsubst tests/unit/%.c,$(B)/tests/%,$(wildcard tests/unit/test_*.c))

Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-6s %s\n' $(1) $@)

.PHONY: all deps demo test unit check-programs bench bench-programs shell install clean
.DELETE_ON_ERROR:
.SECONDARY:

all: $(B)/slowpkt

$(B)/slowpkt: $(OBJS)
	$(call say,LINK)
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)
	$(Q)strip $@

$(B)/src/%.o: src/%.c | $(B)/slowpkt.skel.h
	$(call say,CC)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) -c -o $@ $<

$(B)/bpf/%.bpf.o: bpf/%.bpf.c $(VMLINUX_DIR)/vmlinux.h
	$(call say,CLANG)
	$(Q)mkdir -p $(@D) && $(CLANG) $(BPF_CFLAGS) -c -o $@ $<

$(B)/slowpkt.bpf.o: $(BPF_OBJS) Makefile
	$(call say,BPFLD)
	$(Q)$(BPFTOOL) gen object $@ $(BPF_OBJS) && $(LLVM_STRIP) -g $@

$(B)/slowpkt.skel.h: $(B)/slowpkt.bpf.o
	$(call say,SKEL)
	$(Q)$(BPFTOOL) gen skeleton $< name slowpkt_bpf >$@

$(B)/vmlinux/vmlinux.h: $(VMLINUX_H)
	$(Q)mkdir -p $(@D) && cp $< $@

# an archive, so that a test may include a module itself that it looks into
$(B)/tests/modules.a: $(filter-out $(B)/src/main.o,$(OBJS))
	$(call say,AR)
	$(Q)mkdir -p $(@D) && rm -f $@ && ar rcs $@ $^

$(B)/tests/%: tests/unit/%.c $(B)/tests/modules.a
	$(call say,CC)
	$(Q)$(CC) $(CFLAGS) -o $@ $< $(B)/tests/modules.a -lcmocka $(LIBS)

deps:
	$(Q)tests/deps

# each starts on a machine that has nothing, so what they build is decided after deps
demo: deps
	$(Q)$(MAKE) --no-print-directory all
	$(Q)tests/vm/demo

test: deps
	$(Q)$(MAKE) --no-print-directory all check-programs bench-programs
	$(Q)tests/run $(TESTS)

unit: $(TESTS)
	$(Q)set -e; for t in $^; do $$t; done

check-programs: $(TESTS) $(B)/tests/traffic

# what else the end-to-end tests run goes with it
$(B)/tests/traffic: $(B)/tests/hold

$(B)/tests/traffic $(B)/tests/hold: $(B)/tests/%: tests/vm/%.c
	$(call say,CC)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) -static -o $@ $<

bench:
	$(Q)tests/deps bench
	$(Q)$(MAKE) --no-print-directory all bench-programs
	$(Q)KERNEL=$(KERNEL) tests/bench/bench

bench-programs: $(patsubst %,$(B)/bench/%,roundtrip flows floor floor.bpf.o programs print) $(B)/tests/traffic

$(B)/bench/%.bpf.o: tests/bench/%.bpf.c include/hops.h
	$(call say,CLANG)
	$(Q)mkdir -p $(@D) && $(CLANG) -g -O2 -target bpf -Wall -Werror -Iinclude -I/usr/include/$(shell uname -m)-linux-gnu -c -o $@ $<

$(B)/bench/%: tests/bench/%.c $(B)/tests/modules.a
	$(call say,CC)
	$(Q)mkdir -p $(@D) && $(CC) $(CFLAGS) -static -o $@ $< $(B)/tests/modules.a $(LIBS)

shell: deps
	$(Q)$(MAKE) --no-print-directory all
	$(Q)tests/vm/vm shell -k $(KERNEL)

install: all
	install -D -m 755 $(B)/slowpkt $(DESTDIR)$(PREFIX)/bin/slowpkt

clean:
	rm -rf $(B)/src $(B)/bpf $(B)/tests $(B)/core $(B)/bench $(B)/slowpkt* $(B)/vmlinux

-include $(OBJS:.o=.d) $(BPF_OBJS:.o=.d) $(TESTS:=.d) $(wildcard $(B)/bench/*.d)
