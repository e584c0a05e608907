// track_address.c: when an address is tried again that has failed: each one by itself.
#include <server/track_internal.h>

#include <runtime/base/clock.h>
#include <runtime/base/error.h>
#include <runtime/host/file.h>
#include <server/say.h>
#include <server/track_http.h>
#include <stdio.h>
#include <string.h>

typedef struct address {
    uint64_t digest; // 0: none.
    int64_t next_ms; // It is not tried before that.
    int pause_ms;
} address;

static address addresses[TRACK_ADDRESSES_MAX];
static int64_t end_ms = INT64_MAX;

// Up to its path: scheme, host and port.
static address *address_of(const char *url)
{
    const char *host = strstr(url, "://");
    size_t size = host != NULL ? (size_t)(host - url) + 3 : 0;
    size += strcspn(url + size, "/?#");
    uint64_t digest = trp_digest(url, size) | 1;
    address *free_one = &addresses[0];
    for (size_t i = 0; i < TRACK_ADDRESSES_MAX; i++) {
        if (addresses[i].digest == digest)
            return &addresses[i];
        if (addresses[i].next_ms < free_one->next_ms)
            free_one = &addresses[i];
    }
    *free_one = (address){.digest = digest};
    return free_one;
}

static void put_off(address *it, const char *why)
{
    it->pause_ms = it->pause_ms == 0 ? TRACK_PAUSE_MS : 2 * it->pause_ms;
    if (it->pause_ms > TRACK_PAUSE_MAX_MS)
        it->pause_ms = TRACK_PAUSE_MAX_MS;
    it->next_ms = trp_clock_ms() + it->pause_ms;
    trp_say("%s: it is tried again in %d s", why, it->pause_ms / 1000);
}

void track_put_off(const char *url)
{
    char text[600];
    (void)snprintf(text, sizeof text, "%s", troupe_last_error()->text);
    put_off(address_of(url), text);
}

static bool is_over(void)
{
    return trp_clock_ms() >= end_ms;
}

void track_is_good(const char *url)
{
    address *it = address_of(url);
    it->pause_ms = 0;
    it->next_ms = 0;
}

void track_end_at(int64_t ms)
{
    end_ms = ms;
}

int64_t track_next_ms(int64_t from_ms)
{
    int64_t first = INT64_MAX;
    for (size_t i = 0; i < TRACK_ADDRESSES_MAX; i++)
        if (addresses[i].pause_ms > 0 && addresses[i].next_ms >= from_ms &&
            addresses[i].next_ms < first)
            first = addresses[i].next_ms;
    return first;
}

track_result track_ask(const char *url, const char *token, const char *header, const char *body,
                       int *code, trp_buffer *reply)
{
    address *it = address_of(url);
    trp_buffer unwanted = {0}, *into = reply != NULL ? reply : &unwanted;
    *code = 0;
    *into = (trp_buffer){0};
    bool ends = end_ms != INT64_MAX;
    if (ends ? is_over() : trp_clock_ms() < it->next_ms) {
        (void)troupe_fail(TROUPE_BUSY, "%.200s is not tried now", url);
        return TRACK_LATER;
    }
    const track_request request = {
        .url = url, .token = token, .header = header, .body = body, .is_over = is_over};
    if (track_http(&request, code, into) != TROUPE_OK) {
        put_off(it, troupe_last_error()->text);
        *code = 0;
        return TRACK_LATER;
    }
    bool sent = *code >= 200 && *code < 300;
    bool later = *code == 408 || *code == 425 || *code == 429 || *code >= 500;
    if (!sent)
        (void)troupe_fail(TROUPE_UNSUPPORTED, "%.200s answered %d: %.*s", url, *code,
                          (int)(into->size < 300 ? into->size : 300), (const char *)into->data);
    if (later)
        track_put_off(url);
    if (!sent || reply == NULL)
        trp_buffer_free(into);
    return sent ? TRACK_SENT : later ? TRACK_LATER : TRACK_REFUSED;
}
