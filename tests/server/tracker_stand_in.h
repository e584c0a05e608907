// tracker_stand_in.h: what trackers are sent to, in place of a webhook and of MLflow: one thread
// that answers over HTTP, keeps what it was told, and fails as it is asked to.
#ifndef TRACKER_STAND_IN_H
#define TRACKER_STAND_IN_H

#include <support.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <runtime/base/arena.h>
#include <runtime/codec/json.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOOKS_MAX = 64, RUNS_MAX = 16, STEPS_MAX = 4096, TEXT_MAX = 8192, REQUEST_MAX = 4 << 20 };

typedef struct told_hook {
    char path[1000], head[2000], body[TEXT_MAX];
} told_hook;

typedef struct told_run {
    char name[100], submission[100], experiment[40], status[20], tags[2000], parameters[2000];
    double end_time;
    int times[STEPS_MAX]; // How often each step of "loss" was told.
    double losses[STEPS_MAX], when[STEPS_MAX];
    int highest;
} told_run;

static struct receiver {
    pthread_mutex_t lock;
    pthread_t thread;
    int listener, port;
    _Atomic bool ends;
    int requests;    // So far.
    int fails, code; // So many of the next ones are answered with that code,
    int then;        // and those behind the first of them with this one; 0: with the same.
    char token[8000];
    int padding;     // So many bytes are added to each answer.
    int kill_at;     // At that request the process below is killed: -1: at none;
    bool kill_after; // once it was done, but not answered.
    pid_t victim;
    told_hook hooks[HOOKS_MAX];
    int hook_count;
    char experiments[8][100];
    int experiment_count;
    told_run runs[RUNS_MAX];
    int run_count;
} receiver = {.lock = PTHREAD_MUTEX_INITIALIZER, .kill_at = -1};

static inline bool receiver_text(trp_json object, const char *name, char *out, size_t capacity)
{
    trp_json value;
    trp_arena arena = {0};
    troupe_text text = NULL;
    out[0] = '\0';
    if (trp_json_member(object, name, &value))
        (void)trp_json_read(&troupe_type_troupe_text, value, &arena, &text);
    if (text != NULL)
        (void)snprintf(out, capacity, "%s", text);
    trp_arena_clear(&arena);
    return text != NULL;
}

static inline double receiver_number(trp_json object, const char *name)
{
    trp_json value;
    trp_arena arena = {0};
    double number = -1;
    if (trp_json_member(object, name, &value))
        (void)trp_json_read(&troupe_type_double, value, &arena, &number);
    trp_arena_clear(&arena);
    return number;
}

static inline int receiver_experiment(const char *name)
{
    for (int i = 0; i < receiver.experiment_count; i++)
        if (strcmp(receiver.experiments[i], name) == 0)
            return i;
    return -1;
}

static inline told_run *receiver_run(trp_json body)
{
    char id[100];
    int number;
    if (!receiver_text(body, "run_id", id, sizeof id) || sscanf(id, "run%d", &number) != 1 ||
        number < 0 || number >= receiver.run_count)
        return NULL;
    return &receiver.runs[number];
}

static inline int receiver_make_run(trp_json body, char *reply)
{
    trp_json tags, tag = {0};
    assert_true(receiver.run_count < RUNS_MAX);
    told_run *run = &receiver.runs[receiver.run_count];
    (void)receiver_text(body, "run_name", run->name, sizeof run->name);
    (void)receiver_text(body, "experiment_id", run->experiment, sizeof run->experiment);
    assert_true(trp_json_member(body, "tags", &tags));
    (void)snprintf(run->tags, sizeof run->tags, "%.*s", (int)tags.size, tags.at);
    while (trp_json_next_item(tags, &tag)) {
        char key[100];
        (void)receiver_text(tag, "key", key, sizeof key);
        if (strcmp(key, "troupe.submission") == 0)
            (void)receiver_text(tag, "value", run->submission, sizeof run->submission);
    }
    (void)snprintf(run->status, sizeof run->status, "RUNNING");
    sprintf(reply, "{\"run\": {\"info\": {\"run_id\": \"run%d\"}}}", receiver.run_count++);
    return 200;
}

static inline int receiver_search(trp_json body, char *reply)
{
    char filter[300];
    (void)receiver_text(body, "filter", filter, sizeof filter);
    for (int i = 0; i < receiver.run_count; i++)
        if (strstr(filter, receiver.runs[i].submission) != NULL) {
            sprintf(reply, "{\"runs\": [{\"info\": {\"run_id\": \"run%d\"}}]}", i);
            return 200;
        }
    strcpy(reply, "{}");
    return 200;
}

static inline int receiver_log(trp_json body, char *reply)
{
    told_run *run = receiver_run(body);
    trp_json metrics, parameters, item = {0};
    strcpy(reply, "{}");
    if (run == NULL)
        return 404;
    assert_true(trp_json_member(body, "metrics", &metrics));
    int count = 0;
    for (; trp_json_next_item(metrics, &item); count++) {
        char key[100];
        int step = (int)receiver_number(item, "step");
        (void)receiver_text(item, "key", key, sizeof key);
        if (strcmp(key, "loss") != 0)
            continue;
        assert_true(step > 0 && step < STEPS_MAX);
        run->times[step]++;
        run->losses[step] = receiver_number(item, "value");
        run->when[step] = receiver_number(item, "timestamp");
        run->highest = step > run->highest ? step : run->highest;
    }
    assert_true(count <= 1000);
    assert_true(trp_json_member(body, "params", &parameters));
    if (parameters.size > 2)
        (void)snprintf(run->parameters, sizeof run->parameters, "%.*s", (int)parameters.size,
                       parameters.at);
    return 200;
}

static inline int receiver_mlflow(const char *what, trp_json body, char *reply)
{
    char name[100];
    strcpy(reply, "{}");
    if (strncmp(what, "experiments/get-by-name?experiment_name=", 40) == 0) {
        int found = receiver_experiment(what + 40);
        sprintf(reply, "{\"experiment\": {\"experiment_id\": \"%d\"}}", found);
        return found >= 0 ? 200 : 404;
    }
    if (strcmp(what, "experiments/create") == 0) {
        (void)receiver_text(body, "name", name, sizeof name);
        if (receiver_experiment(name) >= 0)
            return 400;
        sprintf(reply, "{\"experiment_id\": \"%d\"}", receiver.experiment_count);
        (void)snprintf(receiver.experiments[receiver.experiment_count++], 100, "%s", name);
        return 200;
    }
    if (strcmp(what, "runs/search") == 0)
        return receiver_search(body, reply);
    if (strcmp(what, "runs/create") == 0)
        return receiver_make_run(body, reply);
    if (strcmp(what, "runs/log-batch") == 0)
        return receiver_log(body, reply);
    if (strcmp(what, "runs/update") == 0) {
        told_run *run = receiver_run(body);
        if (run == NULL)
            return 404;
        (void)receiver_text(body, "status", run->status, sizeof run->status);
        run->end_time = receiver_number(body, "end_time");
        return 200;
    }
    int number;
    if (sscanf(what, "runs/get?run_id=run%d", &number) == 1 && number < receiver.run_count) {
        sprintf(reply, "{\"run\": {\"data\": {\"metrics\": [{\"key\": \"loss\", \"step\": %d}]}}}",
                receiver.runs[number].highest);
        return 200;
    }
    return 404;
}

// Under the lock.
static inline int receiver_answer(const char *path, const char *head, const char *body, char *reply)
{
    trp_json whole = {0};
    if (receiver.fails > 0) {
        int code = receiver.code;
        receiver.fails--;
        receiver.code = receiver.then != 0 ? receiver.then : code;
        strcpy(reply, "{\"error\": \"not now\"}");
        return code;
    }
    if (body[0] != '\0')
        assert_int_equal(trp_json_parse(body, strlen(body), &whole), TROUPE_OK);
    if (strncmp(path, "/api/2.0/mlflow/", 16) == 0)
        return receiver_mlflow(path + 16, whole, reply);
    assert_true(receiver.hook_count < HOOKS_MAX);
    told_hook *hook = &receiver.hooks[receiver.hook_count++];
    (void)snprintf(hook->path, sizeof hook->path, "%s", path);
    (void)snprintf(hook->head, sizeof hook->head, "%.1999s", head);
    (void)snprintf(hook->body, sizeof hook->body, "%.*s", TEXT_MAX - 1, body);
    strcpy(reply, "thanks");
    return 200;
}

// One request; false: the connection is over.
static inline bool receiver_turn(int fd, char *text)
{
    size_t size = 0, wanted = SIZE_MAX;
    char *body = NULL;
    static char reply[TEXT_MAX], answer[TEXT_MAX + 300], path[1000];
    while (size < wanted) {
        ssize_t got = recv(fd, text + size, REQUEST_MAX - size, 0);
        if (got <= 0)
            return false;
        size += (size_t)got;
        text[size] = '\0';
        char *end = body == NULL ? strstr(text, "\r\n\r\n") : NULL;
        if (end == NULL)
            continue;
        const char *length = strcasestr(text, "\r\nContent-Length: ");
        body = end + 4;
        wanted = (size_t)(body - text) + (length != NULL ? strtoul(length + 18, NULL, 10) : 0);
    }
    assert_int_equal(sscanf(text, "%*s %999s", path), 1);
    body[-2] = '\0';
    pthread_mutex_lock(&receiver.lock);
    const char *token = strcasestr(text, "\r\nAuthorization: Bearer ");
    if (token != NULL)
        (void)snprintf(receiver.token, sizeof receiver.token, "%.*s",
                       (int)strcspn(token + 24, "\r"), token + 24);
    int padding = receiver.padding;
    bool kills = receiver.requests++ == receiver.kill_at;
    if (kills && !receiver.kill_after)
        (void)kill(receiver.victim, SIGKILL);
    int code = kills && !receiver.kill_after ? 0 : receiver_answer(path, text, body, reply);
    if (kills && receiver.kill_after)
        (void)kill(receiver.victim, SIGKILL);
    pthread_mutex_unlock(&receiver.lock);
    if (kills)
        return false;
    int used = snprintf(answer, sizeof answer, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n\r\n%s",
                        code, strlen(reply) + (size_t)padding, reply);
    bool sent = send(fd, answer, (size_t)used, MSG_NOSIGNAL) == used;
    static const char blanks[4096] = {' '};
    for (ssize_t put; sent && padding > 0; padding -= (int)put) {
        put = send(fd, blanks, padding < 4096 ? (size_t)padding : 4096, MSG_NOSIGNAL);
        sent = put > 0;
    }
    return sent;
}

static inline void *receiver_run_all(void *user)
{
    char *text = malloc(REQUEST_MAX + 1);
    (void)user;
    while (!receiver.ends) {
        int fd = accept(receiver.listener, NULL, NULL);
        while (fd >= 0 && receiver_turn(fd, text))
            continue;
        if (fd >= 0)
            (void)close(fd);
    }
    free(text);
    return NULL;
}

// Listens; at the same port as before where there was one.
static inline void receiver_begin(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)receiver.port)};
    socklen_t size = sizeof at;
    int one = 1;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    receiver.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(receiver.listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    assert_int_equal(bind(receiver.listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(receiver.listener, 16), 0);
    assert_int_equal(getsockname(receiver.listener, (struct sockaddr *)&at, &size), 0);
    receiver.port = ntohs(at.sin_port);
    receiver.ends = false;
    assert_int_equal(pthread_create(&receiver.thread, NULL, receiver_run_all, NULL), 0);
}

// No connection may be left.
static inline void receiver_end(void)
{
    receiver.ends = true;
    (void)shutdown(receiver.listener, SHUT_RDWR);
    (void)pthread_join(receiver.thread, NULL);
    (void)close(receiver.listener);
}

// Has it refuse the next requests, the first with that code, and those behind it with `then`, if
// that is not 0.
static inline void receiver_refuse(int requests, int code, int then)
{
    pthread_mutex_lock(&receiver.lock);
    receiver.fails = requests;
    receiver.code = code;
    receiver.then = then;
    pthread_mutex_unlock(&receiver.lock);
}

// What it was told until now can be read without its lock, as long as nobody tells it more.
static inline void receiver_settle(void)
{
    pthread_mutex_lock(&receiver.lock);
    pthread_mutex_unlock(&receiver.lock);
}

// Forgets what it was told.
static inline void receiver_clear(void)
{
    pthread_mutex_lock(&receiver.lock);
    receiver.requests = receiver.fails = receiver.hook_count = 0;
    receiver.experiment_count = receiver.run_count = 0;
    receiver.kill_at = -1;
    receiver.padding = 0;
    receiver.token[0] = '\0';
    memset(receiver.runs, 0, sizeof receiver.runs);
    memset(receiver.hooks, 0, sizeof receiver.hooks);
    pthread_mutex_unlock(&receiver.lock);
}

#endif
