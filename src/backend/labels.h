/* What backends read out of specs and write onto machines. */
#ifndef WALDO_BACKEND_LABELS_H
#define WALDO_BACKEND_LABELS_H

#include "json/json.h"
#include <waldo/sys/backend.h>

#define WALDO__LABEL_RUN   "dev.waldo.run"
#define WALDO__LABEL_OWNER "dev.waldo.owner"
#define WALDO__LABEL_NAME  "dev.waldo.name"  /* only of a named one */
#define WALDO__LABEL_LEASE "dev.waldo.lease" /* "ephemeral", or milliseconds */
#define WALDO__LABEL_PID   "dev.waldo.pid"   /* this and the next three: base/ident.h */
#define WALDO__LABEL_START "dev.waldo.start"
#define WALDO__LABEL_HOST  "dev.waldo.host"
#define WALDO__LABEL_USER  "dev.waldo.user"

/* The members of an object that is being written. name may be NULL, lease_ms 0. */
void waldo__labels_put(waldo__json_writer *jw, const char *owner, const char *run, const char *name,
                       int64_t lease_ms);

/* What they say, of whoever may have written them: nothing is believed but text. */
void waldo__labels_read(const waldo__json_value *labels, waldo_sandbox_info *info);
int64_t waldo__labels_lease(const waldo__json_value *labels); /* milliseconds; 0: none */

/* An option of the sandbox string; empty when it is not there. */
waldo_str waldo__backend_option(const waldo_backend_spec *spec, const char *key);

#endif
