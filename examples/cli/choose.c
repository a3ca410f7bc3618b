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
    complain("no model: give -m, set WALDO_MODEL or OPENAI_API_KEY, put a line\n"
             "  model = chat:URL#NAME\n"
             "into the configuration file, or start a local server such as llama.cpp's on port "
             "8080");
    return EXIT_UNAVAILABLE;
}

int choose_model(args *a)
{
    static char configured[512];
    const char *env = getenv("WALDO_MODEL"), *config = config_get("model");
    const char *key = getenv("OPENAI_API_KEY");

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
    } else if (key != NULL && key[0] != '\0') {
        a->model = "chat:https://api.openai.com/v1#gpt-4.1-mini";
        tell(a, "model", a->model, "OPENAI_API_KEY is set");
    } else {
        return choose_local_model(a);
    }
    return EXIT_DONE;
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
        a->sandboxes[0] = "local:";
        tell(a, "sandbox", "local:", "bubblewrap on this machine, without network");
    }
}
