// post.c: see post.h. A tensor travels as its bytes; its type and shape are headers.
#include "post.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_BYTES = 4096 };

static troupe_status lost(const char *what)
{
    return troupe_fail(TROUPE_IO, "%s the service: %s", what, strerror(errno));
}

static troupe_status send_all(int fd, const void *data, size_t size)
{
    for (size_t sent = 0; sent < size;) {
        ssize_t now = send(fd, (const char *)data + sent, size - sent, MSG_NOSIGNAL);
        if (now < 0)
            return lost("writing to");
        sent += (size_t)now;
    }
    return TROUPE_OK;
}

// All that comes until the service closes the connection; ends with a NUL.
static troupe_status receive_all(int fd, char *reply, size_t capacity, size_t *size)
{
    ssize_t now;
    *size = 0;
    while ((now = recv(fd, reply + *size, capacity - 1 - *size, 0)) > 0)
        *size += (size_t)now;
    reply[*size] = '\0';
    return now < 0 ? lost("reading from") : TROUPE_OK;
}

static troupe_status exchange(int fd, const troupe_service_info *service, unsigned port,
                              const troupe_tensor *images, uint8_t *answers)
{
    size_t rows = images->shape[0], size = HEAD_BYTES + rows;
    char head[HEAD_BYTES], *reply = troupe_arena_alloc(size);
    if (!reply)
        return troupe_fail(TROUPE_NO_MEMORY, "no memory for an answer of %zu bytes", size);
    int length = snprintf(head, sizeof head,
                          "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\nAuthorization: Bearer %s\r\n"
                          "Content-Type: application/octet-stream\r\nContent-Length: %zu\r\n"
                          "X-Troupe-Dtype: uint8\r\nX-Troupe-Shape: %zu,%zu,%zu\r\n"
                          "Connection: close\r\n\r\n",
                          service->route, port, service->token, troupe_tensor_count(images), rows,
                          images->shape[1], images->shape[2]);
    TROUPE_TRY(send_all(fd, head, (size_t)length));
    TROUPE_TRY(send_all(fd, images->data, troupe_tensor_count(images)));
    TROUPE_TRY(receive_all(fd, reply, size, &size));

    const char *body = strstr(reply, "\r\n\r\n");
    if (strncmp(reply, "HTTP/1.1 200 ", 13) != 0 || !body || reply + size != body + 4 + rows)
        return troupe_fail(TROUPE_FAILED, "expected %zu digits, the service answered: %.1000s",
                           rows, reply);
    memcpy(answers, body + 4, rows);
    return TROUPE_OK;
}

troupe_status post_images(const troupe_service_info *service, const troupe_tensor *images,
                          uint8_t *answers)
{
    unsigned port = 0;
    if (sscanf(service->url, "http://127.0.0.1:%u/", &port) != 1)
        return troupe_fail(TROUPE_INVALID, "'%s' is no address of a service", service->url);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&at, sizeof at) != 0) {
        troupe_status status = lost("connecting to");
        if (fd >= 0)
            (void)close(fd);
        return status;
    }
    troupe_status status = exchange(fd, service, port, images, answers);
    (void)close(fd);
    return status;
}
