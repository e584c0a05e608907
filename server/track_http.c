// track_http.c: see track_http.h. libcurl's numbers are those of its ABI, which they have been part
// of since they were given.
#include <server/track_http.h>

#include <runtime/base/error.h>
#include <runtime/base/library.h>
#include <stdio.h>
#include <string.h>

enum {
    OPT_WRITEDATA = 10001,
    OPT_URL = 10002,
    OPT_POSTFIELDS = 10015,
    OPT_USERAGENT = 10018,
    OPT_HTTPHEADER = 10023,
    OPT_NOPROGRESS = 43,
    OPT_POST = 47,
    OPT_POSTFIELDSIZE = 60,
    OPT_HTTPGET = 80,
    OPT_NOSIGNAL = 99,
    OPT_TIMEOUT_MS = 155,
    OPT_NOPROXY = 10177,
    OPT_CONNECTTIMEOUT_MS = 156,
    OPT_PROTOCOLS_STR = 10318,
    OPT_WRITEFUNCTION = 20011,
    OPT_XFERINFOFUNCTION = 20219,
    OPT_XFERINFODATA = 10057,
    INFO_RESPONSE_CODE = 0x200000 + 2,
    GLOBAL_DEFAULT = 3,
    DONE = 0,
    NOT_TAKEN = 23,
    TIMED_OUT = 28,
};

static struct curl {
    int (*global_init)(long flags);
    void *(*easy_init)(void);
    void (*easy_reset)(void *handle);
    int (*easy_setopt)(void *handle, int option, ...);
    int (*easy_perform)(void *handle);
    int (*easy_getinfo)(void *handle, int info, ...);
    const char *(*easy_strerror)(int code);
    void *(*slist_append)(void *list, const char *text);
    void (*slist_free_all)(void *list);
} curl;

int track_http_timeout_ms = TRACK_HTTP_TIMEOUT_MS;

static troupe_status load(void **handle)
{
    // The second comes with git.
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
    static const trp_library_function functions[] = {
        {"curl_global_init", (char *)&curl.global_init},
        {"curl_easy_init", (char *)&curl.easy_init},
        {"curl_easy_reset", (char *)&curl.easy_reset},
        {"curl_easy_setopt", (char *)&curl.easy_setopt},
        {"curl_easy_perform", (char *)&curl.easy_perform},
        {"curl_easy_getinfo", (char *)&curl.easy_getinfo},
        {"curl_easy_strerror", (char *)&curl.easy_strerror},
        {"curl_slist_append", (char *)&curl.slist_append},
        {"curl_slist_free_all", (char *)&curl.slist_free_all},
    };
    static void *made; // Keeps connections.
    char why[256] = "";
    for (size_t i = 0; i < sizeof names / sizeof *names && !made; i++)
        if (trp_library_load(names[i], functions, sizeof functions / sizeof *functions, why,
                             sizeof why) &&
            curl.global_init(GLOBAL_DEFAULT) == DONE)
            made = curl.easy_init();
    *handle = made;
    return made ? TROUPE_OK
                : troupe_fail(TROUPE_UNSUPPORTED, "trackers need libcurl (Debian: libcurl4): %s",
                              why);
}

static size_t take(const char *data, size_t one, size_t count, void *user)
{
    trp_buffer *reply = (trp_buffer *)user;
    if (reply->size + one * count > TRACK_HTTP_REPLY_MAX)
        return 0;
    trp_buffer_append(reply, data, one * count);
    return reply->failed ? 0 : one * count;
}

// Of the type that libcurl calls.
static int watch(void *user, int64_t down, int64_t down_now, int64_t up, int64_t up_now)
{
    const track_request *it = (const track_request *)user;
    (void)down, (void)down_now, (void)up, (void)up_now;
    return it->is_over && it->is_over();
}

static void *set_up(void *handle, const track_request *it, trp_buffer *reply)
{
    trp_buffer text = {0};
    void *headers = curl.slist_append(NULL, "Content-Type: application/json");
    headers = curl.slist_append(headers, "Expect:"); // Without a round trip before a body.
    if (it->token) {
        trp_buffer_printf(&text, "Authorization: Bearer %s", it->token);
        trp_buffer_append(&text, "", 1);
        if (!text.failed) // Else it is refused.
            headers = curl.slist_append(headers, (const char *)text.data);
        trp_buffer_free(&text);
    }
    if (it->header)
        headers = curl.slist_append(headers, it->header);
    curl.easy_reset(handle);
    (void)curl.easy_setopt(handle, OPT_URL, it->url);
    (void)curl.easy_setopt(handle, OPT_PROTOCOLS_STR, "http,https");
    if (it->direct)
        (void)curl.easy_setopt(handle, OPT_NOPROXY, "*");
    (void)curl.easy_setopt(handle, OPT_USERAGENT, "troupe");
    (void)curl.easy_setopt(handle, OPT_NOSIGNAL, 1L);
    (void)curl.easy_setopt(handle, OPT_TIMEOUT_MS, (long)track_http_timeout_ms);
    (void)curl.easy_setopt(handle, OPT_CONNECTTIMEOUT_MS, (long)track_http_timeout_ms);
    (void)curl.easy_setopt(handle, OPT_HTTPHEADER, headers);
    (void)curl.easy_setopt(handle, OPT_WRITEFUNCTION, take);
    (void)curl.easy_setopt(handle, OPT_WRITEDATA, reply);
    (void)curl.easy_setopt(handle, OPT_NOPROGRESS, 0L);
    (void)curl.easy_setopt(handle, OPT_XFERINFOFUNCTION, watch);
    (void)curl.easy_setopt(handle, OPT_XFERINFODATA, it);
    if (it->body) {
        (void)curl.easy_setopt(handle, OPT_POST, 1L);
        (void)curl.easy_setopt(handle, OPT_POSTFIELDS, it->body);
        (void)curl.easy_setopt(handle, OPT_POSTFIELDSIZE, (long)strlen(it->body));
    } else {
        (void)curl.easy_setopt(handle, OPT_HTTPGET, 1L);
    }
    return headers;
}

troupe_status track_http(const track_request *it, int *code, trp_buffer *reply)
{
    void *handle;
    long answered = 0;
    *reply = (trp_buffer){0};
    TROUPE_TRY(load(&handle));
    void *headers = set_up(handle, it, reply);
    int how = curl.easy_perform(handle);
    (void)curl.easy_getinfo(handle, INFO_RESPONSE_CODE, &answered);
    curl.slist_free_all(headers);
    *code = (int)answered;
    trp_buffer_append(reply, "", 1); // Also a text.
    // A reply that is longer is cut.
    if ((how == DONE || how == NOT_TAKEN) && !reply->failed) {
        reply->size--;
        return TROUPE_OK;
    }
    bool reply_failed = reply->failed;
    trp_buffer_free(reply);
    return troupe_fail(how == TIMED_OUT ? TROUPE_TIMED_OUT : TROUPE_PEER_LOST, "%s: %s", it->url,
                       reply_failed ? "no memory for the answer" : curl.easy_strerror(how));
}
