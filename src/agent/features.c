/* What this build contains, by name. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "hand/embedded.h"
#include "model/model.h"
#include "sandbox/registry.h"

enum { NAME_LEN = 64, FEATURES_MAX = 64 };

/* Adapters, then hands, then backends: those can become more while the process lives. */
static int write_name(size_t index, char *text)
{
    const waldo_backend_ops *backend;
    size_t models = 0;

    while (waldo__model_ops_at(models) != NULL) {
        if (models == index) {
            snprintf(text, NAME_LEN, "model.%s", waldo__model_ops_at(models)->name);
            return 1;
        }
        models++;
    }
    for (size_t i = 0; waldo__hand_at(i) != NULL; i++) {
        if (models == index) {
            snprintf(text, NAME_LEN, "hand.%s", waldo__hand_at(i)->name);
            return 1;
        }
        models++;
    }
    backend = waldo__backend_at(index - models);
    if (backend == NULL) {
        return 0;
    }
    snprintf(text, NAME_LEN, "backend.%s", backend->name);
    return 1;
}

const char *waldo_feature_at(size_t index)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static char names[FEATURES_MAX][NAME_LEN]; /* the name of an index never changes */
    int found;

    if (index >= FEATURES_MAX) {
        return NULL;
    }
    pthread_mutex_lock(&lock);
    found = names[index][0] != '\0' || write_name(index, names[index]);
    pthread_mutex_unlock(&lock);
    return found ? names[index] : NULL;
}

int waldo_has_feature(const char *name)
{
    const char *feature;

    for (size_t i = 0; name != NULL && (feature = waldo_feature_at(i)) != NULL; i++) {
        if (strcmp(feature, name) == 0) {
            return 1;
        }
    }
    return 0;
}
