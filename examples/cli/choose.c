/* Defaults, chosen here and printed with the reason. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
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
    const char *at = strstr(reply, "\"id\""), *end;

    if (strstr(reply, " 200 ") == NULL || at == NULL) {
        return 0;
    }
    at += strlen("\"id\"");
    at += strspn(at, " :\t\n");
    end = *at == '"' ? strpbrk(at + 1, "\"\\") : NULL;
    if (end == NULL || *end != '"' || (size_t)(end - at) > size) {
        return 0;
    }
    snprintf(name, size, "%.*s", (int)(end - at - 1), at + 1);
    return name[0] != '\0';
}

int local_server_model(int port, char *name, size_t size)
{
    static const char request[] = "GET /v1/models HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";
    char reply[16384];
    size_t len = 0;
    ssize_t got;
    int fd = connect_loopback(port);

    if (fd < 0) {
        return 0;
    }
    if (send(fd, request, sizeof request - 1, MSG_NOSIGNAL) == (ssize_t)sizeof request - 1) {
        while (len < sizeof reply - 1 &&
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
    if (!a->json) {
        fprintf(stderr, "%s %s (%s)\n", what, value, why);
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
    fputs("waldo: no model: give -m, set WALDO_MODEL or OPENAI_API_KEY, put a line\n"
          "  model = chat:URL#NAME\n"
          "into the configuration file, or start a local server such as llama.cpp's on port 8080\n",
          stderr);
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

int choose_sandbox(args *a)
{
    static char configured[512];
    const char *env = getenv("WALDO_SANDBOX"), *config = config_get("sandbox");

    if (a->sandboxes[0] != NULL) {
        return EXIT_DONE;
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
    return EXIT_DONE;
}
