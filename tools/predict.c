// predict.c: `troupe predict`: asks a service for the predictions of rows, over HTTP or by its
// socket.
#include "troupe.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <netdb.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BODY_MAX = 64 << 20, TOKEN_MAX = 4096, TIMEOUT_S = 60 };

static void usage(FILE *out)
{
    fprintf(
        out,
        "usage: troupe predict [OPTION...] URL <ROWS\n"
        "       troupe predict [OPTION...] --socket FILE <ROWS\n\n"
        "Asks the service at an http:// URL for the predictions of the rows that standard input\n"
        "has, and prints one a line. Rows are JSON: an array of them, or {\"instances\": "
        "[...]}.\n\n"
        "  --csv              rows are lines of numbers with commas, and so are predictions\n"
        "  --token-file FILE  has the service's token (default: $TROUPE_TOKEN)\n"
        "  --socket FILE      by the service's unix socket, which needs no token\n"
        "  --timeout SECONDS  how long to wait for the service (default: 60)\n");
}

static int say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "troupe predict: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    return TOOL_FAILED;
}

// ---- texts that grow

typedef struct growing {
    char *data; // With a zero byte behind it.
    size_t size, capacity;
} growing;

static bool add(growing *to, const char *data, size_t size)
{
    if (size > BODY_MAX - to->size) {
        say("there are more than %d bytes of it", BODY_MAX);
        return false;
    }
    if (to->size + size + 1 > to->capacity) {
        size_t capacity = 2 * (to->size + size + 1);
        char *grown = realloc(to->data, capacity);
        if (!grown) {
            say("no memory");
            return false;
        }
        to->data = grown;
        to->capacity = capacity;
    }
    memcpy(to->data + to->size, data, size);
    to->size += size;
    to->data[to->size] = '\0';
    return true;
}

static bool add_text(growing *to, const char *text)
{
    return add(to, text, strlen(text));
}

static bool read_all(FILE *from, growing *to)
{
    char bytes[8192];
    size_t got;
    if (!add(to, "", 0))
        return false;
    while ((got = fread(bytes, 1, sizeof bytes, from)) > 0)
        if (!add(to, bytes, got))
            return false;
    return true;
}

// ---- rows

// Lines of numbers as JSON.
static bool read_csv(char *text, growing *body)
{
    int line_number = 0, rows = 0;
    if (!add_text(body, "{\"instances\": ["))
        return false;
    for (char *line = text, *next; line; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = '\0';
        line[strcspn(line, "\r")] = '\0';
        line_number++;
        if (line[strspn(line, " \t")] == '\0')
            continue;
        if (!add_text(body, rows++ > 0 ? ", [" : "["))
            return false;
        for (char *at = line, *end;; at = end + 1) {
            char number[32];
            double value = strtod(at, &end);
            bool none = end == at || value - value != 0; // JSON has no infinite numbers.
            end += strspn(end, " \t");
            if (none || (*end != ',' && *end != '\0')) {
                say("line %d of the rows has \"%.*s\" where a number was expected", line_number,
                    (int)(strcspn(at, ",") < 40 ? strcspn(at, ",") : 40), at);
                return false;
            }
            snprintf(number, sizeof number, "%.17g", value);
            if (!add_text(body, at == line ? "" : ", ") || !add_text(body, number))
                return false;
            if (*end == '\0')
                break;
        }
        if (!add_text(body, "]"))
            return false;
    }
    if (rows == 0)
        return say("standard input has no rows: expected lines of numbers") == TOOL_DONE;
    return add_text(body, "]}");
}

static bool read_rows(bool csv, growing *body)
{
    growing text = {0};
    bool good = read_all(stdin, &text);
    if (good) {
        const char *first = text.data + strspn(text.data, " \t\r\n");
        if (csv)
            good = read_csv(text.data, body);
        else if (*first == '[')
            good = add_text(body, "{\"instances\": ") && add(body, text.data, text.size) &&
                   add_text(body, "}");
        else if (*first == '{')
            good = add(body, text.data, text.size);
        else
            good = say("standard input has no rows: expected a JSON array of them, or "
                       "{\"instances\": [...]}; lines of numbers need --csv") == TOOL_DONE;
    }
    free(text.data);
    return good;
}

// ---- HTTP

typedef struct place {
    char host[256], port[8];
    const char *path;
} place;

static bool read_url(const char *url, place *at)
{
    if (strncasecmp(url, "http://", 7) != 0) {
        say("\"%s\" is no URL of a service: expected http://HOST:PORT/ROUTE%s", url,
            strncasecmp(url, "https://", 8) == 0 ? " (https is for curl)" : "");
        return false;
    }
    const char *host = url + 7;
    size_t length = strcspn(host, ":/"), digits = 0;
    at->path = host + length;
    snprintf(at->port, sizeof at->port, "80");
    if (*at->path == ':') {
        digits = strspn(at->path + 1, "0123456789");
        snprintf(at->port, sizeof at->port, "%.*s", (int)digits, at->path + 1);
        at->path += 1 + digits;
    }
    snprintf(at->host, sizeof at->host, "%.*s", (int)length, host);
    bool printable = true;
    for (const char *c = at->path; *c; c++)
        printable = printable && isgraph((unsigned char)*c);
    if (length == 0 || length >= sizeof at->host || at->port[0] == '\0' || digits > 5 ||
        at->path[0] != '/' || !printable) {
        say("\"%s\" is no URL of a service: expected http://HOST:PORT/ROUTE", url);
        return false;
    }
    return true;
}

static int connect_to(const place *at, long seconds)
{
    struct addrinfo *found = NULL, hints = {.ai_socktype = SOCK_STREAM};
    struct timeval limit = {.tv_sec = seconds};
    int error = getaddrinfo(at->host, at->port, &hints, &found), fd = -1;
    if (error != 0) {
        say("%s: %s", at->host, gai_strerror(error));
        return -1;
    }
    for (struct addrinfo *it = found; it && fd < 0; it = it->ai_next) {
        fd = socket(it->ai_family, it->ai_socktype | SOCK_CLOEXEC, it->ai_protocol);
        if (fd < 0)
            continue;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (connect(fd, it->ai_addr, it->ai_addrlen) != 0) {
            error = errno;
            close(fd);
            errno = error;
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (fd < 0)
        say("no service answers at %s:%s: %s", at->host, at->port, strerror(errno));
    return fd;
}

static bool write_request(const place *at, const char *token, const growing *body, growing *request)
{
    char size[64];
    snprintf(size, sizeof size, "\r\nContent-Length: %zu\r\n\r\n", body->size);
    return add_text(request, "POST ") && add_text(request, at->path) &&
           add_text(request, " HTTP/1.1\r\nHost: ") && add_text(request, at->host) &&
           add_text(request, ":") && add_text(request, at->port) &&
           (token[0] == '\0' ||
            (add_text(request, "\r\nAuthorization: Bearer ") && add_text(request, token))) &&
           add_text(request, "\r\nConnection: close\r\nContent-Type: application/json") &&
           add_text(request, size) && add(request, body->data, body->size);
}

// What is refused may be answered before it was read whole.
static void send_all(int fd, const growing *request)
{
    for (size_t sent = 0; sent < request->size;) {
        ssize_t now = send(fd, request->data + sent, request->size - sent, MSG_NOSIGNAL);
        if (now < 0 && errno == EINTR)
            continue;
        if (now <= 0)
            return;
        sent += (size_t)now;
    }
}

static bool receive_all(int fd, growing *reply)
{
    char bytes[8192];
    for (;;) {
        ssize_t got = recv(fd, bytes, sizeof bytes, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            say("the service did not answer in time");
            return false;
        }
        if (got <= 0)
            return true; // What came says whether it is whole.
        if (!add(reply, bytes, (size_t)got))
            return false;
    }
}

// Sets *body to what the reply has. 0: it is no reply.
static int read_reply(const growing *reply, const char **body)
{
    int code = 0;
    const char *text = reply->data ? reply->data : "", *end = strstr(text, "\r\n\r\n");
    if (!end || sscanf(text, "HTTP/1.%*d %d", &code) != 1) {
        say(text[0] ? "what answered is no service over HTTP"
                    : "the connection was closed without an answer");
        return 0;
    }
    const char *length = strcasestr(text, "\r\nContent-Length:");
    *body = end + 4;
    if (!length || length > end ||
        strtoul(length + 17, NULL, 10) != reply->size - (size_t)(*body - text)) {
        say("the service's answer did not come whole");
        return 0;
    }
    return code;
}

// ---- what is printed

// The text of {"error": {"status": ..., "text": ...}}, or all of it.
static void print_refusal(int code, const char *body)
{
    const char *at = strstr(body, "\"text\": \"");
    fprintf(stderr, "troupe predict: ");
    for (at = at ? at + 9 : body; *at && *at != '"' && *at != '\n'; at++) {
        if (*at == '\\' && at[1])
            at++;
        fputc((unsigned char)*at < 0x20 || *at == 0x7f ? '?' : *at, stderr);
    }
    fprintf(stderr, " (HTTP %d)\n", code);
}

// Each item of {"predictions": [...]} in a line of its own.
static int print_predictions(const char *body, bool csv)
{
    const char *at = strstr(body, "\"predictions\": [");
    int depth = 0;
    if (!at)
        return say("the service's answer has no predictions: %.80s", body);
    for (at += 16; *at && (depth > 0 || *at != ']'); at++) {
        depth += *at == '[' ? 1 : *at == ']' ? -1 : 0;
        if (depth == 0 && *at == ',') {
            putchar('\n');
            at += at[1] == ' ';
        } else if (!csv || !strchr("[] ", *at)) {
            putchar(*at);
        }
    }
    putchar('\n');
    return fflush(stdout) == 0 ? TOOL_DONE : say("cannot print: %s", strerror(errno));
}

// ---- the command

static bool read_token(const char *path, char token[TOKEN_MAX])
{
    const char *given = getenv("TROUPE_TOKEN");
    snprintf(token, TOKEN_MAX, "%s", given ? given : "");
    if (path) {
        FILE *file = fopen(path, "re");
        if (!file) {
            say("cannot read the token: %s: %s", path, strerror(errno));
            return false;
        }
        if (!fgets(token, TOKEN_MAX, file))
            token[0] = '\0';
        fclose(file);
    }
    token[strcspn(token, "\r\n")] = '\0';
    for (const char *c = token; *c; c++)
        if (!isgraph((unsigned char)*c)) {
            say("the token has a byte that none has: expected printable characters");
            return false;
        }
    return true;
}

static int ask(const place *at, const char *token, const growing *body, long seconds, bool csv)
{
    growing request = {0}, reply = {0};
    const char *answer;
    int result = TOOL_FAILED, fd = connect_to(at, seconds);
    if (fd >= 0 && write_request(at, token, body, &request)) {
        send_all(fd, &request);
        int code = receive_all(fd, &reply) ? read_reply(&reply, &answer) : 0;
        if (code == 200)
            result = print_predictions(answer, csv);
        else if (code != 0)
            print_refusal(code, answer);
    }
    if (fd >= 0)
        close(fd);
    free(request.data);
    free(reply.data);
    return result;
}

// ---- by a socket

static bool write_all(int fd, const growing *body)
{
    for (size_t sent = 0; sent < body->size;) {
        ssize_t now = write(fd, body->data + sent, body->size - sent);
        if (now < 0 && errno == EINTR)
            continue;
        if (now <= 0)
            return false; // It has said why.
        sent += (size_t)now;
    }
    return true;
}

static bool read_answer(int fd, growing *reply)
{
    char bytes[8192];
    for (;;) {
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return true;
        if (!add(reply, bytes, (size_t)got))
            return false;
    }
}

// `troupe-server predict` speaks as the socket does: it reads all before it answers.
static int ask_socket(const char *path, const growing *body, long seconds, bool csv)
{
    char program[PATH_MAX], time[32];
    int in[2], out[2], status = 0;
    growing reply = {0};
    if (!tool_server_program("predict", program))
        return TOOL_FAILED;
    snprintf(time, sizeof time, "%ld", seconds);
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0)
        return say("a pipe cannot be made: %s", strerror(errno));
    (void)signal(SIGPIPE, SIG_IGN);
    pid_t child = fork();
    if (child == 0) {
        if (dup2(in[0], 0) == 0 && dup2(out[1], 1) == 1)
            execl(program, "troupe-server", "predict", path, time, (char *)NULL);
        _exit(say("%s cannot be executed: %s", program, strerror(errno)));
    }
    close(in[0]);
    close(out[1]);
    bool good = child > 0 && write_all(in[1], body);
    close(in[1]);
    good = child > 0 && read_answer(out[0], &reply) && good;
    close(out[0]);
    if (child > 0)
        good = waitpid(child, &status, 0) == child && status == 0 && good;
    int result = good ? print_predictions(reply.data ? reply.data : "", csv) : TOOL_FAILED;
    free(reply.data);
    return result;
}

int tool_predict(int argc, char **argv)
{
    static const struct option options[] = {
        {"csv", no_argument, NULL, 'c'},           {"token-file", required_argument, NULL, 't'},
        {"timeout", required_argument, NULL, 's'}, {"socket", required_argument, NULL, 'u'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0},
    };
    const char *token_file = NULL, *socket_file = NULL;
    long seconds = TIMEOUT_S;
    bool csv = false;
    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (option == 'h') {
            usage(stdout);
            return TOOL_DONE;
        }
        if (option == 'c')
            csv = true;
        else if (option == 't')
            token_file = optarg;
        else if (option == 'u')
            socket_file = optarg;
        else if (option != 's')
            return tool_misused("predict", usage, NULL);
        else if (!tool_read_number("predict", optarg, 1, &seconds))
            return TOOL_MISUSED;
    }
    if (socket_file && token_file)
        return tool_misused("predict", usage, "--socket needs no token");
    if (optind + (socket_file == NULL) != argc)
        return tool_misused("predict", usage, "expected %s, found %d argument%s",
                            socket_file ? "options alone" : "one URL", argc - optind,
                            argc - optind == 1 ? "" : "s");
    char token[TOKEN_MAX];
    growing body = {0};
    place at;
    int result = TOOL_MISUSED;
    if (socket_file)
        result = read_rows(csv, &body) ? ask_socket(socket_file, &body, seconds, csv) : TOOL_FAILED;
    else if (read_url(argv[optind], &at))
        result = read_token(token_file, token) && read_rows(csv, &body)
                     ? ask(&at, token, &body, seconds, csv)
                     : TOOL_FAILED;
    free(body.data);
    return result;
}
