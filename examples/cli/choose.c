/* Defaults, chosen here and printed with the reason. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

static const struct {
    int port;
    const char *what;
} local_servers[] = { { 8080, "llama.cpp" }, { 11434, "Ollama" }, { 8000, "vLLM" } };

static int connect_loopback(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    struct timeval patience = { .tv_sec = 2 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Copy the first "id" of a list of models; anything else is no list of models. */
static int find_model(const char *reply, char *name, size_t size)
{
    const char *at = strstr(reply, "\"data\""), *end;

    at = at != NULL ? strstr(at, "\"id\"") : NULL;
    if (strncmp(reply, "HTTP/1.", 7) != 0 || strncmp(reply + 8, " 200 ", 5) != 0 || at == NULL) {
        return 0;
    }
    at += strlen("\"id\"");
    at += strspn(at, " :\t\r\n");
    end = *at == '"' ? strpbrk(at + 1, "\"\\") : NULL;
    if (end == NULL || *end != '"' || (size_t)(end - at) > size) {
        return 0;
    }
    snprintf(name, size, "%.*s", (int)(end - at - 1), at + 1);
    return name[0] != '\0';
}

/* First model that a server on this port of the loopback names; 0 when there is none. */
static int local_server_model(int port, char *name, size_t size)
{
    static const char request[] = "GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";
    time_t late = time(NULL) + 3;
    char reply[16384];
    size_t len = 0;
    ssize_t got;
    int fd = connect_loopback(port);

    if (fd < 0) {
        return 0;
    }
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == (ssize_t)sizeof request - 1) {
        while (len < sizeof reply - 1 && time(NULL) < late &&
               (got = recv(fd, reply + len, sizeof reply - 1 - len, 0)) > 0) {
            len += (size_t)got;
        }
    }
    close(fd);
    reply[len] = '\0';
    return find_model(reply, name, size);
}

static void tell(const args *a, const char *what, const char *value, const char *why)
{
    if (!a->json && !a->quiet) {
        fprintf(stderr, "%s ", what);
        put_safe(stderr, (waldo_str){ value, strlen(value) });
        fprintf(stderr, " (%s)\n", why);
    }
}

static int choose_local_model(args *a)
{
    static char model[512];
    char name[256];

    for (size_t i = 0; i < sizeof local_servers / sizeof local_servers[0]; i++) {
        if (local_server_model(local_servers[i].port, name, sizeof name)) {
            snprintf(model, sizeof model, "chat:http://127.0.0.1:%d/v1#%s", local_servers[i].port,
                     name);
            a->model = model;
            tell(a, "model", model, "a server answers there");
            return EXIT_DONE;
        }
    }
    complain("no model: give -m, set WALDO_MODEL, OPENAI_API_KEY or ANTHROPIC_API_KEY, put a line\n"
             "  model = chat:URL#NAME\n"
             "into the configuration file, or start a local server such as llama.cpp's on port "
             "8080");
    return EXIT_UNAVAILABLE;
}

/* What a key is there for. */
static const struct {
    const char *key;
    const char *model;
    const char *why;
} vendors[] = {
    { "OPENAI_API_KEY", "openai:gpt-5.4-mini", "OPENAI_API_KEY is set" },
    { "ANTHROPIC_API_KEY", "anthropic:claude-sonnet-5-5", "ANTHROPIC_API_KEY is set" },
};

static int choose_vendor_model(args *a)
{
    for (size_t i = 0; i < sizeof vendors / sizeof vendors[0]; i++) {
        const char *key = getenv(vendors[i].key);

        if (key != NULL && key[0] != '\0') {
            a->model = vendors[i].model;
            tell(a, "model", a->model, vendors[i].why);
            return 1;
        }
    }
    return 0;
}

int choose_model(args *a)
{
    static char configured[512];
    const char *env = getenv("WALDO_MODEL"), *config = config_get("model");

    if (a->model != NULL) {
        return EXIT_DONE;
    }
    if (env != NULL && env[0] != '\0') {
        a->model = env;
        tell(a, "model", a->model, "WALDO_MODEL");
    } else if (config != NULL) {
        snprintf(configured, sizeof configured, "%s", config);
        a->model = configured;
        tell(a, "model", a->model, "configuration file");
    } else if (!choose_vendor_model(a)) {
        return choose_local_model(a);
    }
    return EXIT_DONE;
}

/* ---- the sandbox ---- */

/* Of an engine's images the first of these that is there is used; none is ever fetched. */
static const char *const images[] = { "debian:12",
                                      "debian:12-slim",
                                      "debian:bookworm-slim",
                                      "ubuntu:24.04",
                                      "ubuntu:22.04",
                                      "ubuntu:latest",
                                      "python:3.12-slim",
                                      "alpine:latest",
                                      "waldo-quickstart:latest",
                                      NULL };

typedef struct check {
    int over;
    waldo_status status;
} check;

static void checked(void *userdata, waldo_status status, const waldo_error *error)
{
    check *c = userdata;

    (void)error;
    c->over = 1;
    c->status = status;
}

/* Could this one be opened? WALDO_ENOTFOUND: the engine has no such image. */
static waldo_status check_string(waldo_runtime *rt, const char *text)
{
    waldo_sandbox_spec *spec =
        waldo_sandbox_spec_new(&WALDO_SANDBOX_SPEC(.backends = WALDO_STRINGS(text)));
    check c = { .status = WALDO_ENOMEM };

    if (spec != NULL) {
        waldo_sandbox_check(rt, spec, checked, &c);
        while (!c.over && waldo_runtime_step(rt, WALDO_FOREVER) == WALDO_OK) {
        }
    }
    waldo_sandbox_spec_unref(spec);
    return c.status;
}

/* A container of an image that is there, or NULL and why not. */
static const char *find_container(const args *a, const char **ret_why)
{
    static char text[512], own[400];
    const char *configured = config_get("image");
    const char *const only[] = { own, NULL };
    const char *const *list = configured != NULL ? only : images;
    waldo_runtime *rt = open_runtime(a);
    waldo_status status = WALDO_EUNAVAILABLE;

    snprintf(own, sizeof own, "%s", configured != NULL ? configured : "");
    for (size_t i = 0; rt != NULL && list[i] != NULL; i++) {
        snprintf(text, sizeof text, "docker:%s", list[i]);
        status = check_string(rt, text);
        /* An engine that does not answer is not asked again. */
        if (status != WALDO_ENOTFOUND && status != WALDO_ENOTSUP) {
            break;
        }
    }
    waldo_runtime_free(rt);
    *ret_why = status != WALDO_ENOTFOUND && status != WALDO_ENOTSUP
                   ? "bubblewrap on this machine, without network; no Docker engine can be used"
               : configured != NULL
                   ? "bubblewrap on this machine, without network; the Docker engine has not the "
                     "image of the configuration file"
                   : "bubblewrap on this machine, without network; the Docker engine has no image "
                     "that serves: docker pull debian:12";
    return status == WALDO_OK ? text : NULL;
}

static void choose_docker_or_local(args *a)
{
    const char *why = "bubblewrap on this machine, without network; it can work on the directory "
                      "itself";

    a->sandboxes[0] = a->mode == WALDO_WORKSPACE_COPY ? find_container(a, &why) : NULL;
    if (a->sandboxes[0] != NULL) {
        why = "a Docker engine answers and has the image; without network";
    } else {
        a->sandboxes[0] = "local:";
    }
    tell(a, "sandbox", a->sandboxes[0], why);
}

void choose_sandbox(args *a)
{
    static char configured[512];
    const char *env = getenv("WALDO_SANDBOX"), *config = config_get("sandbox");

    if (a->sandboxes[0] != NULL) {
        return;
    }
    if (env != NULL && env[0] != '\0') {
        a->sandboxes[0] = env;
        tell(a, "sandbox", env, "WALDO_SANDBOX");
    } else if (config != NULL) {
        snprintf(configured, sizeof configured, "%s", config);
        a->sandboxes[0] = configured;
        tell(a, "sandbox", configured, "configuration file");
    } else {
        choose_docker_or_local(a);
    }
}
