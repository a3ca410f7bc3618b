/* The Docker Engine through libcurl and nothing else, as tightly as it can be asked. */
#ifndef WALDO_TESTS_BENCH_DOCKER_API_H
#define WALDO_TESTS_BENCH_DOCKER_API_H

#include <stdbool.h>
#include <stddef.h>

enum { API_NAME_SIZE = 64 };

struct api; /* two connections that are kept: one for requests, one for streams */

struct api *api_new(const char *socket, const char *image);
void api_free(struct api *api);

/* A container that sleeps, with no network, a volume at /workspace and waldo's limits. */
bool api_create(struct api *api, char *ret_name);
bool api_start(struct api *api, const char *name);
bool api_remove(struct api *api, const char *name);

/* One command: create, start and read to the end, inspect. */
bool api_exec_true(struct api *api, const char *name);

/* A file of zeros in /workspace by the archive endpoint. */
bool api_put_file(struct api *api, const char *name, size_t bytes);
bool api_get_file(struct api *api, const char *name, size_t bytes);

#endif
