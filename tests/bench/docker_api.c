#include "docker_api.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ANSWER_MAX = 64 * 1024, PATH_MAX_LEN = 512, BLOCK = 512, TIMEOUT_S = 120 };

struct api {
    CURL *requests;
    CURL *streams;
    struct curl_slist *json;
    struct curl_slist *tar;
    char image[PATH_MAX_LEN];
    char answer[ANSWER_MAX]; /* its beginning, ended by NUL */
    size_t kept;
    size_t received;
    char *archive; /* what put_file sends */
    size_t archive_len;
    unsigned made;
};

static size_t receive(char *bytes, size_t one, size_t count, void *userdata)
{
    struct api *api = userdata;
    size_t room = sizeof(api->answer) - 1 - api->kept;
    size_t part = count < room ? count : room;

    (void)one;
    memcpy(api->answer + api->kept, bytes, part);
    api->kept += part;
    api->answer[api->kept] = '\0';
    api->received += count;
    return count;
}

static CURL *new_connection(struct api *api, const char *socket)
{
    CURL *curl = curl_easy_init();

    if (curl != NULL) {
        curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, socket);
        curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_TIMEOUT, (long)TIMEOUT_S);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, api);
    }
    return curl;
}

struct api *api_new(const char *socket, const char *image)
{
    struct api *api = calloc(1, sizeof(*api));

    if (api == NULL) {
        return NULL;
    }
    snprintf(api->image, sizeof(api->image), "%s", image);
    api->requests = new_connection(api, socket);
    api->streams = new_connection(api, socket);
    api->json = curl_slist_append(NULL, "Content-Type: application/json");
    api->json = curl_slist_append(api->json, "Expect:");
    api->tar = curl_slist_append(NULL, "Content-Type: application/x-tar");
    api->tar = curl_slist_append(api->tar, "Expect:");
    if (api->requests == NULL || api->streams == NULL) {
        api_free(api);
        return NULL;
    }
    return api;
}

void api_free(struct api *api)
{
    if (api != NULL) {
        curl_easy_cleanup(api->requests);
        curl_easy_cleanup(api->streams);
        curl_slist_free_all(api->json);
        curl_slist_free_all(api->tar);
        free(api->archive);
        free(api);
    }
}

/* body NULL: none. True when the answer has the status that is wanted. */
static bool ask(struct api *api, CURL *curl, const char *method, const char *path, const char *body,
                size_t len, long wanted)
{
    char url[2 * PATH_MAX_LEN];
    long status = 0;

    snprintf(url, sizeof(url), "http://localhost/v1.41%s", path);
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
    if (strcmp(method, "GET") != 0) {
        curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body == NULL ? "" : body);
        curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)len);
    }
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, body == api->archive ? api->tar : api->json);
    api->kept = api->received = 0;
    api->answer[0] = '\0';

    CURLcode code = curl_easy_perform(curl);

    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    if (code != CURLE_OK || status != wanted) {
        fprintf(stderr, "%s %s: %s, status %ld: %s\n", method, path, curl_easy_strerror(code),
                status, api->answer);
        return false;
    }
    return true;
}

static bool ask_json(struct api *api, const char *method, const char *path, const char *body,
                     long wanted)
{
    return ask(api, api->requests, method, path, body, body == NULL ? 0 : strlen(body), wanted);
}

bool api_create(struct api *api, char *ret_name)
{
    char body[2 * PATH_MAX_LEN];
    char path[PATH_MAX_LEN];

    snprintf(ret_name, API_NAME_SIZE, "waldo-bench-%d-%u", (int)getpid(), api->made++);
    snprintf(path, sizeof(path), "/containers/create?name=%s", ret_name);
    snprintf(body, sizeof(body),
             "{\"Image\":\"%s\",\"Entrypoint\":[\"/bin/sleep\"],\"Cmd\":[\"1000000\"],"
             "\"User\":\"1000:1000\",\"Volumes\":{\"/workspace\":{}},"
             "\"Labels\":{\"dev.waldo.bench\":\"1\"},"
             "\"HostConfig\":{\"AutoRemove\":true,\"NetworkMode\":\"none\",\"CapDrop\":[\"ALL\"],"
             "\"SecurityOpt\":[\"no-new-privileges\"],\"Memory\":1073741824,"
             "\"MemorySwap\":1073741824,\"PidsLimit\":512,\"LogConfig\":{\"Type\":\"none\"}}}",
             api->image);
    return ask_json(api, "POST", path, body, 201);
}

bool api_start(struct api *api, const char *name)
{
    char path[PATH_MAX_LEN];

    snprintf(path, sizeof(path), "/containers/%s/start", name);
    return ask_json(api, "POST", path, NULL, 204);
}

bool api_remove(struct api *api, const char *name)
{
    char path[PATH_MAX_LEN];

    snprintf(path, sizeof(path), "/containers/%s?force=1&v=1", name);
    return ask_json(api, "DELETE", path, NULL, 204);
}

bool api_exec_true(struct api *api, const char *name)
{
    static const char body[] = "{\"AttachStdout\":true,\"AttachStderr\":true,\"Cmd\":[\"true\"]}";
    static const char start[] = "{\"Detach\":false,\"Tty\":false}";
    char path[PATH_MAX_LEN];
    char id[2 * API_NAME_SIZE];

    snprintf(path, sizeof(path), "/containers/%s/exec", name);
    if (!ask_json(api, "POST", path, body, 201)) {
        return false;
    }
    if (sscanf(api->answer, "{\"Id\":\"%127[0-9a-f]", id) != 1) {
        fprintf(stderr, "no id of an exec in: %s\n", api->answer);
        return false;
    }
    snprintf(path, sizeof(path), "/exec/%s/start", id);
    if (!ask(api, api->streams, "POST", path, start, sizeof(start) - 1, 200)) {
        return false;
    }
    snprintf(path, sizeof(path), "/exec/%s/json", id);
    return ask_json(api, "GET", path, NULL, 200) && strstr(api->answer, "\"ExitCode\":0") != NULL;
}

/* An archive of one file of zeros: a header of ustar, the bytes, two blocks of zeros. */
static bool make_archive(struct api *api, size_t bytes)
{
    size_t padded = (bytes + BLOCK - 1) / BLOCK * BLOCK;
    unsigned sum = 0;

    api->archive_len = BLOCK + padded + 2 * (size_t)BLOCK;
    api->archive = calloc(1, api->archive_len);
    if (api->archive == NULL) {
        return false;
    }
    memcpy(api->archive, "file", 4);
    memcpy(api->archive + 100, "0000644", 7);
    memcpy(api->archive + 108, "0001750", 7);
    memcpy(api->archive + 116, "0001750", 7);
    snprintf(api->archive + 124, 12, "%011o", (unsigned)bytes);
    memcpy(api->archive + 136, "00000000000", 11);
    memset(api->archive + 148, ' ', 8);
    api->archive[156] = '0';
    memcpy(api->archive + 257, "ustar\00000", 8);
    for (size_t i = 0; i < BLOCK; i++) {
        sum += (unsigned char)api->archive[i];
    }
    snprintf(api->archive + 148, 8, "%06o", sum);
    return true;
}

bool api_put_file(struct api *api, const char *name, size_t bytes)
{
    char path[PATH_MAX_LEN];

    if (api->archive == NULL && !make_archive(api, bytes)) {
        return false;
    }
    snprintf(path, sizeof(path), "/containers/%s/archive?path=/workspace", name);
    return ask(api, api->requests, "PUT", path, api->archive, api->archive_len, 200);
}

bool api_get_file(struct api *api, const char *name, size_t bytes)
{
    char path[PATH_MAX_LEN];

    snprintf(path, sizeof(path), "/containers/%s/archive?path=/workspace/file", name);
    return ask_json(api, "GET", path, NULL, 200) && api->received > bytes;
}
