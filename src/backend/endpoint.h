/*
 * Where a provider is: what the sandbox string says, else the variable that the provider's own
 * client reads, else what is usual.
 */
#ifndef WALDO_BACKEND_ENDPOINT_H
#define WALDO_BACKEND_ENDPOINT_H

#include <waldo/sys/backend.h>

enum { WALDO__ENDPOINT_MAX = 256 };

typedef enum waldo__endpoint_kind {
    WALDO__ENDPOINT_URL,
    WALDO__ENDPOINT_DOMAIN
} waldo__endpoint_kind;

typedef struct waldo__endpoint {
    const char *backend; /* for errors, as the next three */
    const char *key;     /* option of the sandbox string */
    const char *variable;
    const char *example;
    waldo__endpoint_kind kind;
} waldo__endpoint;

/* An URL without a slash at its end, or a domain; empty where nothing is said and usual is "". */
waldo_status waldo__endpoint_find(const waldo__endpoint *endpoint, const waldo_backend_spec *spec,
                                  const char *usual, char ret[WALDO__ENDPOINT_MAX],
                                  waldo_error **ret_err);

#endif
