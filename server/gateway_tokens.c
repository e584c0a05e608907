// gateway_tokens.c: the two tokens, the codes of links, and the sessions of browsers.
#ifdef TROUPE_HTTP
#include <server/gateway_internal.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <runtime/base/error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DIGITS = GATEWAY_SECRET - 1 };

// Time that goes on while the machine sleeps.
static int64_t now_ms(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static troupe_status make_secret(char secret[GATEWAY_SECRET])
{
    unsigned char bytes[DIGITS / 2];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return trp_fail_errno(TROUPE_IO, "no random numbers for a token");
    for (size_t i = 0; i < sizeof bytes; i++)
        (void)snprintf(secret + 2 * i, 3, "%02x", bytes[i]);
    return TROUPE_OK;
}

// The text of a file that is this user's alone. TROUPE_NOT_FOUND: there is none.
static troupe_status read_private(const char *path, char *out, size_t capacity)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return trp_fail_errno(errno == ENOENT ? TROUPE_NOT_FOUND : TROUPE_IO, "%s cannot be opened",
                              path);
    troupe_status status = TROUPE_OK;
    ssize_t got = 0;
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode) || about.st_uid != geteuid() ||
        (about.st_mode & 077) != 0)
        status = troupe_fail(TROUPE_UNSUPPORTED,
                             "%s is no file that this user alone can read: expected mode 0600, or "
                             "none, so that a new one is made",
                             path);
    else if ((got = read(fd, out, capacity - 1)) < 0)
        status = trp_fail_errno(TROUPE_IO, "%s cannot be read", path);
    out[got > 0 ? got : 0] = '\0';
    (void)close(fd);
    return status;
}

static bool is_secret_text(const char *text)
{
    return strspn(text, "0123456789abcdef") == (size_t)DIGITS;
}

static troupe_status open_token(const char *state, const char *name, char token[GATEWAY_SECRET])
{
    trp_path path;
    char text[GATEWAY_SECRET + 1];
    TROUPE_TRY(trp_path_make(&path, "%s/%s", state, name));
    troupe_status status = read_private(path.text, text, sizeof text);
    if (status == TROUPE_OK) {
        if (!is_secret_text(text) || (text[DIGITS] != '\0' && text[DIGITS] != '\n'))
            return troupe_fail(
                TROUPE_MALFORMED,
                "%s is no token: expected %d hexadecimal digits, or no file, so that "
                "a new one is made",
                path.text, DIGITS);
        memcpy(token, text, DIGITS);
        token[DIGITS] = '\0';
        return TROUPE_OK;
    }
    if (status != TROUPE_NOT_FOUND)
        return status;
    TROUPE_TRY(make_secret(token));
    (void)snprintf(text, sizeof text, "%s\n", token);
    return trp_file_replace(path.text, text, strlen(text));
}

troupe_status gateway_tokens_open(gateway_tokens *tokens, const char *state)
{
    *tokens = (gateway_tokens){.state = state};
    TROUPE_TRY(open_token(state, "token", tokens->admin));
    return open_token(state, "token.routes", tokens->routes);
}

void gateway_tokens_at(gateway_tokens *tokens, uint16_t port)
{
    (void)snprintf(tokens->cookie, sizeof tokens->cookie, "troupe-%u", port);
}

// ---- sessions

// The value of our cookie, which is as long as a session's; false: there is none.
static bool find_cookie(const gateway_tokens *tokens, const trp_http_exchange *it,
                        char value[GATEWAY_SECRET])
{
    const char *at = it->headers[TRP_HTTP_COOKIE];
    size_t length = strlen(tokens->cookie);
    while (at) {
        at += strspn(at, " ");
        if (strncmp(at, tokens->cookie, length) == 0 && at[length] == '=') {
            at += length + 1;
            if (strcspn(at, "; ") != (size_t)DIGITS)
                return false;
            memcpy(value, at, DIGITS);
            value[DIGITS] = '\0';
            return true;
        }
        at = strchr(at, ';');
        at = at ? at + 1 : NULL;
    }
    return false;
}

static gateway_session *find_session(gateway_tokens *tokens, const trp_http_exchange *it)
{
    char value[GATEWAY_SECRET];
    gateway_session *found = NULL;
    int64_t now = now_ms();
    if (!find_cookie(tokens, it, value))
        return NULL;
    for (size_t i = 0; i < GATEWAY_SESSIONS_MAX; i++) {
        gateway_session *session = &tokens->sessions[i];
        if (session->until_ms > now && trp_http_is_secret(value, session->id))
            found = session;
    }
    return found;
}

gateway_may gateway_tokens_may(gateway_tokens *tokens, const trp_http_exchange *it)
{
    if (it->headers[TRP_HTTP_AUTHORIZATION]) {
        bool admin = trp_http_has_bearer(it, tokens->admin);
        bool routes = trp_http_has_bearer(it, tokens->routes);
        return admin ? GATEWAY_ALL : routes ? GATEWAY_ROUTES : GATEWAY_WRONG;
    }
    return find_session(tokens, it) ? GATEWAY_BROWSER : GATEWAY_NOTHING;
}

void gateway_tokens_logout(gateway_tokens *tokens, const trp_http_exchange *it)
{
    gateway_session *session = find_session(tokens, it);
    if (session)
        *session = (gateway_session){.until_ms = 0};
}

// ---- codes

static troupe_status code_path(const char *state, trp_path *path)
{
    return trp_path_make(path, "%s/gateway.code", state);
}

troupe_status gateway_code_make(const char *state, char code[GATEWAY_SECRET])
{
    trp_path path;
    char text[GATEWAY_SECRET + 32];
    TROUPE_TRY(code_path(state, &path));
    TROUPE_TRY(make_secret(code));
    (void)snprintf(text, sizeof text, "%s %" PRId64 "\n", code, now_ms());
    return trp_file_replace(path.text, text, strlen(text));
}

static troupe_status no_code(void)
{
    return troupe_fail(TROUPE_NOT_FOUND,
                       "the code is not good, or not any more: expected that of a "
                       "link that `troupe server link` has just made");
}

troupe_status gateway_tokens_login(gateway_tokens *tokens, const char *code, const char **session)
{
    trp_path path;
    char text[GATEWAY_SECRET + 32];
    TROUPE_TRY(code_path(tokens->state, &path));
    if (read_private(path.text, text, sizeof text) != TROUPE_OK || !is_secret_text(text) ||
        text[DIGITS] != ' ')
        return no_code();
    text[DIGITS] = '\0';
    int64_t age_ms = now_ms() - strtoll(text + DIGITS + 1, NULL, 10);
    bool good = trp_http_is_secret(code, text) && age_ms >= 0 && age_ms <= GATEWAY_CODE_MS;
    if (!good && age_ms >= 0 && age_ms <= GATEWAY_CODE_MS)
        return no_code(); // Somebody else's guess does not spoil it.
    if (unlink(path.text) != 0 || !good)
        return no_code();
    gateway_session *oldest = &tokens->sessions[0];
    for (size_t i = 0; i < GATEWAY_SESSIONS_MAX; i++)
        if (tokens->sessions[i].until_ms < oldest->until_ms)
            oldest = &tokens->sessions[i];
    TROUPE_TRY(make_secret(oldest->id));
    oldest->until_ms = now_ms() + (int64_t)GATEWAY_SESSION_S * 1000;
    *session = oldest->id;
    return TROUPE_OK;
}
#else
extern int gateway_tokens_are_left_out; // A file must not be empty.
#endif
