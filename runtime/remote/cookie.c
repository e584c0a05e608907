// cookie.c: see cookie.h. Aumasson and Bernstein: SipHash, a fast short-input PRF (2012).
#include <runtime/remote/cookie.h>

#include <pthread.h>
#include <runtime/shm/process_table.h>
#include <string.h>

static uint64_t rotate(uint64_t word, int bits)
{
    return word << bits | word >> (64 - bits);
}

static void mix(uint64_t v[4], int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[1] = rotate(v[1], 13) ^ v[0];
        v[0] = rotate(v[0], 32);
        v[2] += v[3];
        v[3] = rotate(v[3], 16) ^ v[2];
        v[0] += v[3];
        v[3] = rotate(v[3], 21) ^ v[0];
        v[2] += v[1];
        v[1] = rotate(v[1], 17) ^ v[2];
        v[2] = rotate(v[2], 32);
    }
}

uint64_t trp_siphash(const uint64_t key[2], const void *data, size_t size)
{
    uint64_t v[4] = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                     key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    const unsigned char *bytes = data;
    for (size_t at = 0; at <= size; at += 8) { // The last word has the size in its upper byte.
        uint64_t word = 0;
        size_t left = size - at < 8 ? size - at : 8;
        for (size_t i = 0; i < left; i++)
            word |= (uint64_t)bytes[at + i] << (8 * i);
        if (left < 8)
            word |= (uint64_t)(size & 0xff) << 56;
        v[3] ^= word;
        mix(v, 2);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    mix(v, 4);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static uint64_t own_key[2];

static void make_key(void)
{
    own_key[0] = trp_random_incarnation();
    own_key[1] = trp_random_incarnation();
}

uint64_t trp_cookie(const void *data, size_t size)
{
    static pthread_once_t made = PTHREAD_ONCE_INIT;
    pthread_once(&made, make_key);
    uint64_t number = trp_siphash(own_key, data, size);
    return number != 0 ? number : 1;
}
