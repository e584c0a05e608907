// serve.c: the life of a model after its training: a version in a repository, opened by its ref,
// and replicas of it in processes of their own that answer who asks.
#include "serve.h"

#include "model.h"
#include "post.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

// The test images, the digits on them, and what the model makes of them.
typedef struct test {
    troupe_tensor images;
    uint8_t *labels, *answers;
} test;

static troupe_status test_init(test *it, const digits *data)
{
    size_t count = data->test.count;
    uint8_t *pixels = troupe_arena_alloc(count * data->inputs);
    *it = (test){.labels = troupe_arena_alloc(count), .answers = troupe_arena_alloc(count)};
    if (!pixels || !it->labels || !it->answers)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu images", count);
    digits_copy(data, &data->test, pixels, it->labels);
    it->images = troupe_tensor_of(TROUPE_UINT8, pixels, count, data->height, data->width);
    return TROUPE_OK;
}

// Has the version of the ref read the images.
static troupe_status read_with(const char *ref, const char *repository, test *it)
{
    troupe_instance *instance;
    troupe_tensor y;
    TROUPE_TRY(troupe_model_open_stored(reader, ref, NULL, &instance, .repository = repository));
    troupe_status status = troupe_model_forward(instance, &it->images, &y);
    if (status == TROUPE_OK)
        memcpy(it->answers, y.data, y.shape[0]);
    troupe_model_close(&instance);
    return status;
}

// Where HTTP is left out of the library, or libmicrohttpd is missing, by calls alone.
static troupe_status start(const char *version, const char *socket, troupe_service *service)
{
    cpu_set_t mine;
    bool several = sched_getaffinity(0, sizeof mine, &mine) == 0 && CPU_COUNT(&mine) > 1;
    troupe_status status =
        troupe_serve(reader, version, "/digits", service, .replicas = several ? 2 : 1,
                     .http = TROUPE_HTTP_LOOPBACK, .socket = socket);
    if (status != TROUPE_UNSUPPORTED)
        return status;
    printf("Not served over HTTP: %s\n", troupe_last_error()->text);
    return troupe_serve(reader, version, "/digits", service, .replicas = several ? 2 : 1,
                        .socket = socket);
}

// Has the service read the images, and compares.
static troupe_status ask(troupe_service service, const troupe_service_info *info, const test *it)
{
    size_t count = it->images.shape[0], right = 0;
    uint8_t *answers = troupe_arena_alloc(count);
    if (!answers)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for %zu answers", count);
    if (*info->url) {
        TROUPE_TRY(post_images(info, &it->images, answers));
    } else {
        troupe_tensor y;
        TROUPE_TRY(troupe_get(troupe_tensor, troupe_predict(service, &it->images), &y));
        memcpy(answers, y.data, y.shape[0]);
    }
    for (size_t i = 0; i < count; i++) {
        right += answers[i] == it->labels[i];
        if (answers[i] != it->answers[i])
            return troupe_fail(TROUPE_FAILED,
                               "test image %zu: the service reads a %d, the model a %d", i,
                               answers[i], it->answers[i]);
    }
    printf("Asked %s for the test images: accuracy %.4f, each answer as the model's own\n",
           *info->url ? "over HTTP" : "by a call", (double)right / (double)count);
    return TROUPE_OK;
}

// ---- for curl

// Files that curl reads: so the token is on no command line, where all users could see it.
typedef struct curl_files {
    char headers[PATH_BYTES], body[PATH_BYTES];
} curl_files;

// Makes a file that this user alone can read.
static FILE *make_private(const char *path)
{
    (void)unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd < 0 ? NULL : fdopen(fd, "w");
}

static troupe_status write_headers(const char *path, const char *token)
{
    FILE *out = make_private(path);
    if (!out)
        return troupe_fail(TROUPE_IO, "%s cannot be written", path);
    fprintf(out, "Authorization: Bearer %s\nContent-Type: application/json\n", token);
    return fclose(out) == 0 ? TROUPE_OK : troupe_fail(TROUPE_IO, "%s cannot be written", path);
}

// The first of the images.
static troupe_status write_body(const char *path, const troupe_tensor *images)
{
    const uint8_t *pixel = images->data;
    FILE *out = make_private(path);
    if (!out)
        return troupe_fail(TROUPE_IO, "%s cannot be written", path);
    fputs("{\"instances\": [[", out);
    for (size_t y = 0; y < images->shape[1]; y++)
        for (size_t x = 0; x < images->shape[2]; x++)
            fprintf(out, "%s%d", x > 0 ? ", " : y > 0 ? "], [" : "[", *pixel++);
    fputs("]]]}\n", out);
    return fclose(out) == 0 ? TROUPE_OK : troupe_fail(TROUPE_IO, "%s cannot be written", path);
}

// Or until a line is typed.
static void wait_for(int seconds, bool typed)
{
    struct timespec now;
    struct pollfd line = {.fd = typed ? STDIN_FILENO : -1, .events = POLLIN};
    clock_gettime(CLOCK_MONOTONIC, &now);
    for (time_t until = now.tv_sec + seconds; now.tv_sec < until;) { // Signals wake it.
        if (poll(&line, 1, (int)(until - now.tv_sec) * 1000) > 0)
            return;
        clock_gettime(CLOCK_MONOTONIC, &now);
    }
}

static troupe_status stay(const troupe_service_info *info, const test *it, const char *storage,
                          int seconds)
{
    curl_files files;
    (void)snprintf(files.headers, sizeof files.headers, "%s/curl.headers", storage);
    (void)snprintf(files.body, sizeof files.body, "%s/curl.json", storage);
    troupe_status status = write_headers(files.headers, info->token);
    if (status == TROUPE_OK)
        status = write_body(files.body, &it->images);
    if (status == TROUPE_OK) {
        bool asks = isatty(STDIN_FILENO) != 0;
        printf("For %d s%s you can ask for the first one, too, a %d:\n"
               "  curl -H \"@%s\" -d \"@%s\" %s\n",
               seconds, asks ? ", or until Enter is pressed," : "", it->labels[0], files.headers,
               files.body, info->url);
        fflush(stdout);
        wait_for(seconds, asks);
    }
    (void)unlink(files.headers);
    (void)unlink(files.body);
    return status;
}

static troupe_status use(troupe_service service, const test *it, const char *storage, int seconds)
{
    troupe_service_info info;
    TROUPE_TRY(troupe_service_info_get(service, &info));
    printf("Served %s%s, replicas: %u\n", *info.url ? "at " : "to this program", info.url,
           info.replicas_alive);
    TROUPE_TRY(ask(service, &info, it));
    if (*info.url && seconds > 0)
        return stay(&info, it, storage, seconds);
    if (*info.url)
        printf("With --serve 60 it stays for a minute, to be asked by curl\n");
    return TROUPE_OK;
}

troupe_status digits_serve(const char *checkpoint, const digits *data, const char *storage,
                           int seconds, const char *socket)
{
    char repository[PATH_BYTES];
    troupe_model_ref ref;
    (void)snprintf(repository, sizeof repository, "%s/models", storage);
    TROUPE_TRY(troupe_push(reader, "digits", checkpoint, &ref, .repository = repository));
    printf("\nPushed as %s into the repository %s\n", ref.text, repository);

    test it;
    troupe_version_info version;
    troupe_service service;
    TROUPE_TRY(test_init(&it, data));
    TROUPE_TRY(read_with(ref.text, repository, &it));
    TROUPE_TRY(troupe_repository_describe(ref.text, &version, .repository = repository));
    TROUPE_TRY(start(version.path, socket, &service));
    troupe_status status = use(service, &it, storage, seconds);
    troupe_status stopped = troupe_service_stop(service);
    return status == TROUPE_OK ? stopped : status;
}
