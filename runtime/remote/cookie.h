// cookie.h: numbers that only this process can make of a text, and makes again: what it told a
// peer, and hears back from it, needs no memory meanwhile.
#ifndef TRP_REMOTE_COOKIE_H
#define TRP_REMOTE_COOKIE_H

#include <stddef.h>
#include <stdint.h>

// SipHash-2-4 with that key.
uint64_t trp_siphash(const uint64_t key[2], const void *data, size_t size);

// The same with this process's key, which is random; never 0.
uint64_t trp_cookie(const void *data, size_t size);

#endif
