/**
 * @file
 * Where keys come from. A key is asked for by name when a request needs it, rests in guarded
 * memory and reaches no prompt, journal, log, error, sandbox or child process.
 */
#ifndef WALDO_KEYS_H
#define WALDO_KEYS_H

#include <waldo/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A source of keys. The struct is copied; what userdata points to must outlive the runtime.
 *
 * get: look one key up.
 *   @param userdata       as in the struct
 *   @param name           such as "OPENAI_API_KEY"; borrowed for the call
 *   @param ret_value      set to the value, borrowed until the call returns to the library, which
 *                         copies it at once
 *   @param ret_expires_at set to wall-clock seconds after which to ask again; 0 = never
 *   @return WALDO_OK, or WALDO_ENOTFOUND when there is no such key
 * Called on the driving thread when a request needs the key, and once more after a 401.
 */
typedef struct waldo_keys {
    uint32_t size;
    void *userdata;
    waldo_status (*get)(void *userdata, const char *name, waldo_str *ret_value,
                        int64_t *ret_expires_at);
} waldo_keys;

/** Reads the variables that the adapters in use declare, and no other. */
#define WALDO_KEYS_FROM_ENV (waldo_keys_from_env())

/**
 * The source behind WALDO_KEYS_FROM_ENV.
 *
 * @return static object
 * Thread: any; reads the environment when a key is needed. Since: 0.1.
 */
WALDO_API const waldo_keys *waldo_keys_from_env(void);

#ifdef __cplusplus
}
#endif

#endif
