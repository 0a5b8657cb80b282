// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "parse.h"

enum {
	ADDR_BYTES = 16,
	ADDR_BITS = 128,
	MAPPED_BYTES = 12,	/* ::ffff: before an IPv4 address */
	MAPPED_BITS = 96,
};

static const uint8_t mapped[MAPPED_BYTES] = { [10] = 0xff, [11] = 0xff };

/*
 * Reads digits from *at on, which moves behind them. Not strtoull(): it takes
 * blanks and signs, and turns -1 into a large number.
 */
static int read_digits(const char **at, uint64_t *number)
{
	const char *s = *at;
	uint64_t n = 0;
	int rc = 0;

	if (*s < '0' || *s > '9')
		return -EINVAL;
	for (; *s >= '0' && *s <= '9'; s++) {
		if (__builtin_mul_overflow(n, 10u, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*s - '0'), &n))
			rc = -ERANGE;
	}
	*at = s;
	*number = n;
	return rc;
}

int parse__number(const char *text, uint64_t min, uint64_t max, uint64_t *number)
{
	uint64_t n;
	int rc = read_digits(&text, &n);

	if (rc == -EINVAL || *text != '\0')
		return -EINVAL;
	if (rc || n < min || n > max)
		return -ERANGE;
	*number = n;
	return 0;
}

/* The length in ns of the unit that is all of text; 0: no unit. */
static uint64_t unit_of(const char *text, uint64_t bare)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {
		{ "ns", 1 }, { "us", NS_PER_US }, { "ms", NS_PER_MS }, { "s", NS_PER_S },
	};

	if (*text == '\0')
		return bare;
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(text, units[i].name))
			return units[i].ns;
	return 0;
}

/* n digits of a fraction of a unit, which is a power of ten. */
static int fraction_of(const char *digits, size_t n, uint64_t unit, uint64_t *ns)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++) {
		unit /= 10;
		if (!unit && digits[i] != '0')
			return -EINVAL;
		sum += unit * (uint64_t)(digits[i] - '0');
	}
	*ns = sum;
	return 0;
}

int parse__time(const char *text, uint64_t bare, uint64_t *ns)
{
	uint64_t whole, unit, fraction, sum;
	const char *digits = "";
	size_t n = 0;
	int rc = read_digits(&text, &whole);

	if (rc == -EINVAL)
		return rc;
	if (*text == '.') {
		digits = ++text;
		n = strspn(digits, "0123456789");
		if (!n)
			return -EINVAL;
		text += n;
	}
	unit = unit_of(text, bare);
	if (!unit || fraction_of(digits, n, unit, &fraction))
		return -EINVAL;
	if (rc || __builtin_mul_overflow(whole, unit, &sum) ||
	    __builtin_add_overflow(sum, fraction, &sum) || sum > INT64_MAX)
		return -ERANGE;
	*ns = sum;
	return 0;
}

/* PORT or LO-HI, the len bytes at text. */
static int read_range(const char *text, int len, uint64_t *lo, uint64_t *hi)
{
	const char *at = text, *end = text + len;
	int rc = read_digits(&at, lo);

	if (rc == -EINVAL)
		return rc;
	*hi = *lo;
	if (at < end && *at == '-') {
		int rc_hi;

		at++;
		rc_hi = read_digits(&at, hi);
		if (rc_hi == -EINVAL)
			return rc_hi;
		rc = rc ? rc : rc_hi;
	}
	if (at != end)
		return -EINVAL;
	return rc || *hi > UINT16_MAX || *lo > *hi ? -ERANGE : 0;
}

int parse__ports(const char *text, struct ports *ports, struct part *bad)
{
	struct ports sum = *ports;

	for (;;) {
		struct part item = { text, (int)strcspn(text, ",") };
		uint64_t lo, hi;
		int rc = read_range(item.at, item.len, &lo, &hi);

		if (rc) {
			*bad = item;
			return rc;
		}
		for (uint64_t port = lo; port <= hi; port++)
			sum.bit[port / 8] |= (uint8_t)(1u << port % 8);
		text += item.len;
		if (*text == '\0')
			break;
		text++;
	}
	sum.used = 1;
	*ports = sum;
	return 0;
}

/* Reads an address, IPv4 as v4-mapped. */
static int read_address(const char *text, uint8_t addr[ADDR_BYTES], bool *ipv4)
{
	*ipv4 = inet_pton(AF_INET, text, addr + MAPPED_BYTES) == 1;
	if (*ipv4) {
		memcpy(addr, mapped, MAPPED_BYTES);
		return 0;
	}
	return inet_pton(AF_INET6, text, addr) == 1 ? 0 : -EINVAL;
}

int parse__prefix(const char *text, struct prefix *prefix)
{
	uint8_t addr[ADDR_BYTES], mask[ADDR_BYTES] = { 0 };
	char address[INET6_ADDRSTRLEN];
	size_t len = strcspn(text, "/");
	uint64_t bits = ADDR_BITS;
	bool ipv4, beyond = false;

	if (len >= sizeof(address))
		return -EINVAL;
	memcpy(address, text, len);
	address[len] = '\0';
	if (read_address(address, addr, &ipv4))
		return -EINVAL;
	if (text[len] == '/') {
		uint64_t max = ipv4 ? ADDR_BITS - MAPPED_BITS : ADDR_BITS;
		int rc = parse__number(text + len + 1, 0, max, &bits);

		if (rc)
			return rc;
		/* an IPv4 /0 still has to ask whether the address is IPv4 */
		bits += ADDR_BITS - max;
	}
	for (unsigned int i = 0; i < ADDR_BYTES; i++) {
		if (bits >= 8 * (i + 1))
			mask[i] = 0xff;
		else if (bits > 8 * i)
			mask[i] = (uint8_t)(0xff00 >> (bits - 8 * i));
		beyond |= (addr[i] & ~mask[i]) != 0;
		addr[i] &= mask[i];
	}
	memcpy(prefix->addr, addr, sizeof(addr));
	memcpy(prefix->mask, mask, sizeof(mask));
	return beyond ? -EDOM : 0;
}

static unsigned int prefix_bits(const struct prefix *p)
{
	return (unsigned int)(__builtin_popcountll(p->mask[0]) + __builtin_popcountll(p->mask[1]));
}

bool prefix__is_ipv4(const struct prefix *p)
{
	return prefix_bits(p) >= MAPPED_BITS && !memcmp(p->addr, mapped, MAPPED_BYTES);
}

bool prefix__covers_ipv4(const struct prefix *p)
{
	uint64_t head[2] = { 0 };

	memcpy(head, mapped, MAPPED_BYTES);
	return prefix_bits(p) < MAPPED_BITS && (head[0] & p->mask[0]) == p->addr[0] &&
	       (head[1] & p->mask[1]) == p->addr[1];
}

char *prefix__format(const struct prefix *p, char buf[PREFIX_TEXT])
{
	bool ipv4 = prefix__is_ipv4(p);
	unsigned int skip = ipv4 ? MAPPED_BITS : 0;
	const char *addr = (const char *)p->addr + skip / 8;
	size_t len;

	inet_ntop(ipv4 ? AF_INET : AF_INET6, addr, buf, PREFIX_TEXT);
	len = strlen(buf);
	if (prefix_bits(p) < ADDR_BITS)
		snprintf(buf + len, PREFIX_TEXT - len, "/%u", prefix_bits(p) - skip);
	return buf;
}
