/* Where the engine is, and which version of its API to speak. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/env.h"
#include "base/error.h"
#include "docker.h"

/* Every engine since Docker 20.10 speaks a version of this range. */
enum { API_MAJOR = 1, API_MIN = 41, API_MAX = 52, SEARCH_MAX = 2048 };

/* Where engines listen; NULL: an absolute path. */
static const struct {
    const char *variable;
    const char *path;
} places[] = {
    { NULL, "/var/run/docker.sock" },
    { "XDG_RUNTIME_DIR", "/docker.sock" },
    { "HOME", "/.docker/run/docker.sock" },
    { "HOME", "/.docker/desktop/docker.sock" },
    { "XDG_RUNTIME_DIR", "/podman/podman.sock" },
    { NULL, "/run/podman/podman.sock" },
};

static int new_socket(int family)
{
    return socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

static int connect_tcp(const docker_engine *engine)
{
    const char *host = strcmp(engine->host, "localhost") == 0 ? "127.0.0.1" : engine->host;
    struct sockaddr_in in4 = { .sin_family = AF_INET, .sin_port = htons((uint16_t)engine->port) };
    struct sockaddr_in6 in6 = { .sin6_family = AF_INET6,
                                .sin6_port = htons((uint16_t)engine->port) };
    int is4 = inet_pton(AF_INET, host, &in4.sin_addr) == 1;
    int fd = -1;
    int at_once = 1;
    int failed;

    if (is4 || inet_pton(AF_INET6, host, &in6.sin6_addr) == 1) {
        fd = new_socket(is4 ? AF_INET : AF_INET6);
    } else {
        errno = EINVAL;
    }
    if (fd < 0) {
        return -1;
    }
    /* A frame must not wait until the engine has acknowledged the one before, some 40 ms later. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    failed = is4 ? connect(fd, (struct sockaddr *)&in4, sizeof in4)
                 : connect(fd, (struct sockaddr *)&in6, sizeof in6);
    if (failed != 0 && errno != EINPROGRESS) {
        int saved = errno;

        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    size_t len = strlen(path);
    int fd;

    if (len >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, len);
    fd = new_socket(AF_UNIX);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        int saved = errno;

        close(fd);
        errno = saved;
        return -1;
    }
    return fd;
}

int waldo__docker_engine_connect(const docker_engine *engine)
{
    return engine->path[0] != '\0' ? connect_unix(engine->path) : connect_tcp(engine);
}

waldo_status waldo__docker_engine_refused(const docker_engine *engine, int error_number,
                                          waldo_error **ret_err)
{
    const char *advice = "check that the engine runs there";

    if (error_number == EACCES || error_number == EPERM) {
        advice = "this user may not use it; add the user to the group that owns the socket "
                 "(usually: usermod -aG docker NAME, then log in anew), knowing that the group is "
                 "as good as root, or use a rootless engine";
    } else if (error_number == ECONNREFUSED) {
        advice = "nobody listens there; start the engine (systemctl start docker)";
    } else if (error_number == EAGAIN) {
        advice = "the engine does not accept connections; see whether it hangs";
    }
    return waldo_error_set(ret_err, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                           "docker: cannot reach the engine at %s (%s): %s", engine->text,
                           waldo__errno_text(error_number), advice);
}

static waldo_status bad_address(waldo_str text, const char *why, waldo_error **ret_err)
{
    return waldo__error_invalid(ret_err, "docker: the engine's address \"%.*s\" %s", (int)text.len,
                                text.ptr, why);
}

/* HOST:PORT[/PREFIX], after tcp:// */
static waldo_status parse_tcp(docker_engine *engine, waldo_str rest, waldo_error **ret_err)
{
    waldo_str all = waldo__str(engine->text);
    size_t slash = waldo__str_find(rest, '/');
    waldo_str prefix = waldo__slice(rest.ptr + slash, rest.len - slash);
    waldo_str place = waldo__slice(rest.ptr, slash);
    size_t colon = place.len;
    int64_t port = 2375;
    unsigned char address[16];

    while (colon > 0 && place.ptr[colon - 1] != ':' && place.ptr[colon - 1] != ']') {
        colon--;
    }
    if (colon > 0 && place.ptr[colon - 1] == ':') {
        if (!waldo__str_int(waldo__slice(place.ptr + colon, place.len - colon), &port) ||
            port < 1 || port > 65535) {
            return bad_address(all, "has no port from 1 to 65535", ret_err);
        }
        place.len = colon - 1;
    }
    if (place.len > 1 && place.ptr[0] == '[' && place.ptr[place.len - 1] == ']') {
        place = waldo__slice(place.ptr + 1, place.len - 2);
    }
    while (prefix.len > 0 && prefix.ptr[prefix.len - 1] == '/') {
        prefix.len--;
    }
    if (port == 2376 || waldo__env("DOCKER_TLS_VERIFY") != NULL) {
        return bad_address(all,
                           "wants TLS, which this version does not speak to engines; reach "
                           "it through a Unix socket (ssh -L /tmp/x.sock:/var/run/docker.sock)",
                           ret_err);
    }
    engine->port = (int)port;
    snprintf(engine->host, sizeof engine->host, "%.*s", (int)place.len, place.ptr);
    snprintf(engine->prefix, sizeof engine->prefix, "%.*s", (int)prefix.len, prefix.ptr);
    if (strcmp(engine->host, "localhost") != 0 && inet_pton(AF_INET, engine->host, address) != 1 &&
        inet_pton(AF_INET6, engine->host, address) != 1) {
        return bad_address(all, "has to hold a numeric address or localhost", ret_err);
    }
    return WALDO_OK;
}

static waldo_status parse_address(docker_engine *engine, waldo_str text, waldo_error **ret_err)
{
    static const char unix_scheme[] = "unix://";
    static const char tcp_scheme[] = "tcp://";

    if (text.len >= sizeof engine->text) {
        return bad_address(WALDO__S(""), "is too long", ret_err);
    }
    snprintf(engine->text, sizeof engine->text, "%.*s", (int)text.len, text.ptr);
    if (waldo__str_starts(text, unix_scheme) && text.len > sizeof unix_scheme - 1) {
        snprintf(engine->path, sizeof engine->path, "%s", engine->text + sizeof unix_scheme - 1);
        return WALDO_OK;
    }
    if (waldo__str_starts(text, tcp_scheme)) {
        return parse_tcp(
            engine,
            waldo__strn(text.ptr + sizeof tcp_scheme - 1, text.len - (sizeof tcp_scheme - 1)),
            ret_err);
    }
    return bad_address(text,
                       "is neither unix:///PATH nor tcp://ADDRESS:PORT; for ssh:// forward "
                       "the socket (ssh -L /tmp/x.sock:/var/run/docker.sock)",
                       ret_err);
}

static waldo_status try_connect(const docker_engine *engine, waldo_error **ret_err)
{
    int fd = waldo__docker_engine_connect(engine);

    if (fd < 0) {
        return waldo__docker_engine_refused(engine, errno, ret_err);
    }
    close(fd);
    return WALDO_OK;
}

/* The first that accepts; a socket that is there but refuses explains more than one that is not. */
static waldo_status search(docker_engine *engine, waldo_error **ret_err)
{
    waldo__buf looked = WALDO__BUF_INIT(SEARCH_MAX);
    waldo_error *refusal = NULL;
    waldo_status status = WALDO_EUNAVAILABLE;

    for (size_t i = 0; i < WALDO__COUNT(places) && status != WALDO_OK; i++) {
        const char *folder = places[i].variable != NULL ? waldo__env(places[i].variable) : "";

        if (folder == NULL || strlen(folder) + strlen(places[i].path) >= sizeof engine->path - 8) {
            continue;
        }
        snprintf(engine->path, sizeof engine->path, "%s%s", folder, places[i].path);
        snprintf(engine->text, sizeof engine->text, "unix://%.*s", DOCKER_PATH_MAX - 8,
                 engine->path);
        waldo__buf_printf(&looked, "%s%s", looked.len > 0 ? ", " : "", engine->path);
        if (access(engine->path, F_OK) == 0 || errno == EACCES) {
            status = try_connect(engine, &refusal);
        }
    }
    if (status != WALDO_OK && refusal != NULL) {
        waldo__error_move(ret_err, refusal);
        refusal = NULL;
    } else if (status != WALDO_OK) {
        waldo_error_set(ret_err, status, WALDO_CLASS_BACKEND,
                        "docker: no engine was found (looked at %s); install and start Docker or "
                        "Podman's socket, or name it with DOCKER_HOST",
                        waldo__buf_str(&looked).ptr);
    }
    waldo_error_free(refusal);
    waldo__buf_free(&looked);
    return status;
}

waldo_status waldo__docker_engine_find(docker_engine *engine, const waldo_backend_env *env,
                                       waldo_str named, waldo_error **ret_err)
{
    waldo_status status;

    *engine = (docker_engine){ .env = env };
    if (named.len == 0) {
        named = waldo__str(waldo__env("DOCKER_HOST"));
    }
    if (named.len == 0) {
        return search(engine, ret_err);
    }
    status = parse_address(engine, named, ret_err);
    return status == WALDO_OK ? try_connect(engine, ret_err) : status;
}

waldo_status waldo__docker_engine_agree(docker_engine *engine, waldo_str offered,
                                        waldo_error **ret_err)
{
    size_t dot = waldo__str_find(offered, '.');
    int64_t major = 0;
    int64_t minor = -1;

    if (dot == offered.len || !waldo__str_int(waldo__slice(offered.ptr, dot), &major) ||
        !waldo__str_int(waldo__slice(offered.ptr + dot + 1, offered.len - dot - 1), &minor)) {
        return waldo_error_set(ret_err, WALDO_EUNAVAILABLE, WALDO_CLASS_PROTOCOL,
                               "docker: what answers at %s is no Docker Engine: it names no API "
                               "version",
                               engine->text);
    }
    if (major < API_MAJOR || (major == API_MAJOR && minor < API_MIN)) {
        return waldo_error_set(ret_err, WALDO_EUNAVAILABLE, WALDO_CLASS_BACKEND,
                               "docker: the engine at %s speaks API %.*s, and %d.%d (Docker 20.10) "
                               "is the oldest that works; update it",
                               engine->text, (int)offered.len, offered.ptr, API_MAJOR, API_MIN);
    }
    snprintf(engine->version, sizeof engine->version, "%d.%d", API_MAJOR,
             major > API_MAJOR || minor > API_MAX ? API_MAX : (int)minor);
    return WALDO_OK;
}

/* One attempt; 1 when the engine said that there is no such container. */
static int send_removal(const docker_engine *engine, waldo_str request, int64_t until)
{
    int fd = waldo__docker_engine_connect(engine);
    struct pollfd item = { .fd = fd, .events = POLLIN };
    char answer[16] = "";

    if (fd < 0) {
        return 0;
    }
    /* Over TCP the connection may not be there yet; then the stream's end has to do. */
    (void)!send(fd, request.ptr, request.len, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (until > 0 && poll(&item, 1, (int)((until - waldo__now_ns()) / WALDO__NS_PER_MS) + 1) > 0) {
        (void)!recv(fd, answer, sizeof answer - 1, MSG_DONTWAIT);
    }
    close(fd);
    return strncmp(answer, "HTTP/1.1 404", 12) == 0;
}

void waldo__docker_engine_forget(const docker_engine *engine, const char *container, int64_t ms)
{
    waldo__buf text = WALDO__BUF_INIT(4096);
    int64_t until = ms > 0 ? waldo__deadline_ns(ms) : 0;

    waldo__buf_printf(&text,
                      "DELETE %s/v%s/containers/%s?force=1&v=1 HTTP/1.1\r\nHost: localhost\r\n"
                      "Connection: close\r\n\r\n",
                      engine->prefix, engine->version, container);
    while (text.status == WALDO_OK && send_removal(engine, waldo__buf_str(&text), until) &&
           waldo__now_ns() < until) {
        poll(NULL, 0, 5);
    }
    waldo__buf_free(&text);
}
