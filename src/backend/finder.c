#include "backend/finder.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/error.h"

enum { SAVED_MAX = 4096, SETTLE_MS = 1000 };

int waldo__take_word(char to[WALDO__WORD_MAX], waldo_str word)
{
    if (word.len >= WALDO__WORD_MAX || !waldo__str_made_of(word, "-_")) {
        return 0;
    }
    memcpy(to, word.ptr, word.len);
    to[word.len] = '\0';
    return 1;
}

/* ---- what is asked for ---- */

static waldo_status take_saved(waldo__finder *finder, const char *attach, waldo_str saved,
                               waldo_error **ret_err)
{
    const waldo__json_limits limits = { .max_bytes = SAVED_MAX, .max_depth = 4, .max_values = 32 };
    waldo__json *doc = NULL;
    waldo_status status = waldo__json_parse(saved, &limits, &doc, ret_err);
    const waldo__json_value *root = waldo__json_root(doc);

    finder->saved = 1;
    finder->foreign = waldo__json_get_bool(root, "foreign", 0);
    waldo__take_word(finder->user, waldo__json_get_str(root, "user"));
    if (status == WALDO_OK &&
        !(waldo__take_word(finder->id, waldo__json_get_str(root, "machine")) &&
          waldo__take_word(finder->run, waldo__json_get_str(root, "run")))) {
        status =
            waldo__error_invalid(ret_err, "%s: the saved state names no machine", finder->backend);
    } else if (status == WALDO_OK && finder->foreign &&
               (attach == NULL || strcmp(attach, finder->id) != 0)) {
        status = waldo__error_invalid(ret_err,
                                      "%s: the saved state is of a machine made elsewhere: open it "
                                      "with the string that names it, attach=%s",
                                      finder->backend, finder->id);
    }
    waldo__json_free(doc);
    return status;
}

static void look_by_name(void *userdata);

waldo_status waldo__finder_init(waldo__finder *finder, waldo__loop *loop, const char *backend,
                                const waldo__finder_fns *fns, void *owner,
                                const waldo_backend_spec *spec, waldo_str saved,
                                waldo_error **ret_err)
{
    *finder = (waldo__finder){ .backend = backend,
                               .loop = loop,
                               .fns = fns,
                               .owner = owner,
                               .name = waldo__strdup(spec->name),
                               .lease_ms = spec->lease_ms,
                               .lease_asked = (spec->flags & WALDO_BACKEND_LEASE) != 0,
                               .find = (spec->flags & WALDO_BACKEND_FIND) != 0 };
    waldo__timer_init(&finder->settle, look_by_name, finder);
    waldo__take_word(finder->run, waldo__str(spec->id));
    waldo__take_word(finder->mine, waldo__str(spec->id));
    finder->foreign =
        spec->attach != NULL && waldo__take_word(finder->id, waldo__str(spec->attach));
    if (finder->name == NULL && spec->name != NULL) {
        return waldo__error_nomem(ret_err);
    }
    return saved.len > 0 ? take_saved(finder, spec->attach, saved, ret_err) : WALDO_OK;
}

void waldo__finder_free(waldo__finder *finder)
{
    if (finder->loop != NULL) {
        waldo__timer_disarm(finder->loop, &finder->settle);
    }
    waldo__free(finder->name);
    finder->name = NULL;
}

void waldo__finder_put_saved(const waldo__finder *finder, waldo__buf *out)
{
    waldo__json_writer jw;

    waldo__json_writer_init(&jw, out);
    waldo__jw_object(&jw, NULL);
    waldo__jw_text(&jw, "machine", finder->id);
    waldo__jw_text(&jw, "run", finder->run);
    waldo__jw_text(&jw, "user", finder->user);
    waldo__jw_bool(&jw, "foreign", finder->foreign);
    waldo__jw_end(&jw, '}');
}

/* ---- decisions ---- */

static void fail(const waldo__finder *finder, waldo_status status, const char *text)
{
    waldo_error *made = NULL;

    waldo_error_set(&made, status, WALDO_CLASS_BACKEND, "%s: %s", finder->backend, text);
    finder->fns->failed(finder->owner, status, made);
    waldo_error_free(made);
}

static void look(waldo__finder *finder, const char *label, const char *value)
{
    finder->best.id[0] = '\0';
    finder->label = label;
    finder->value = value;
    finder->fns->look(finder->owner, label, value);
}

static void look_by_name(void *userdata)
{
    waldo__finder *finder = userdata;

    look(finder, WALDO__LABEL_NAME, finder->name);
}

void waldo__finder_begin(waldo__finder *finder)
{
    if (finder->foreign) {
        finder->reached = 1;
        finder->fns->reach(finder->owner);
    } else if (finder->saved) {
        finder->fns->inspect(finder->owner);
    } else if (finder->name != NULL) {
        look_by_name(finder);
    } else {
        finder->fns->create(finder->owner);
    }
}

/* It is there; of a name another process may have made one, too, which is seen a while later. */
static void settle(waldo__finder *finder)
{
    if (finder->name == NULL) {
        finder->fns->ready(finder->owner);
    } else if (waldo__timer_arm(finder->loop, &finder->settle, waldo__deadline_ns(SETTLE_MS)) !=
               WALDO_OK) {
        fail(finder, WALDO_ENOMEM, waldo_status_text(WALDO_ENOMEM));
    }
}

void waldo__finder_created(waldo__finder *finder, waldo_status status, const waldo_error *error)
{
    if (status == WALDO_EUNKNOWN_OUTCOME && !finder->again) {
        finder->again = 1; /* made a second time only if there is none */
        look(finder, WALDO__LABEL_RUN, finder->run);
        return;
    }
    finder->made = finder->id[0] != '\0';
    if (status != WALDO_OK) {
        finder->fns->failed(finder->owner, status, error);
    } else {
        settle(finder);
    }
}

/*
 * The oldest counts, then the first by its id: whoever looks takes the same. Nobody is believed to
 * have filtered as asked.
 */
void waldo__finder_see(waldo__finder *finder, waldo_str id, waldo_str since,
                       const waldo__json_value *labels)
{
    waldo_str run = waldo__json_get_str(labels, WALDO__LABEL_RUN);
    char word[WALDO__WORD_MAX];
    char age[WALDO__WORD_MAX];
    int order;

    snprintf(age, sizeof age, "%.*s", (int)(since.len & 63), since.ptr);
    order = strcmp(age, finder->best.since);
    if (!waldo__str_is(waldo__json_get_str(labels, finder->label), finder->value) ||
        !waldo__take_word(word, id) ||
        (finder->best.id[0] != '\0' &&
         (order > 0 || (order == 0 && strcmp(word, finder->best.id) > 0)))) {
        return;
    }
    finder->best.run[0] = '\0'; /* one that is not ours */
    waldo__take_word(finder->best.run, run);
    finder->best.lease_ms = waldo__labels_lease(labels);
    memcpy(finder->best.id, word, sizeof word);
    memcpy(finder->best.since, age, sizeof age);
}

/* The one of the label, which another process may have made faster. */
static void take_best(waldo__finder *finder)
{
    int own = strcmp(finder->id, finder->best.id) == 0;

    if (finder->best.run[0] == '\0') {
        fail(finder, WALDO_EACCESS, "the machine of this name is not one of waldo's");
        return;
    }
    if (finder->made && !own) {
        finder->fns->discard(finder->owner, finder->id);
    }
    memcpy(finder->id, finder->best.id, sizeof finder->id);
    memcpy(finder->run, finder->best.run, sizeof finder->run);
    finder->lease_ms = finder->lease_asked ? finder->lease_ms : finder->best.lease_ms;
    finder->reached = strcmp(finder->run, finder->mine) != 0;
    if (finder->made && own) {
        finder->fns->ready(finder->owner);
        return;
    }
    finder->made = !finder->reached;
    finder->fns->reach(finder->owner);
}

void waldo__finder_looked(waldo__finder *finder, waldo_status status, const waldo_error *error)
{
    if (status != WALDO_OK) {
        finder->fns->failed(finder->owner, status, error);
    } else if (finder->best.id[0] != '\0') {
        take_best(finder);
    } else if (finder->find) {
        fail(finder, WALDO_ENOTFOUND, "there is no machine of this name; make one with name=NAME");
    } else if (finder->made) {
        finder->fns->ready(finder->owner);
    } else {
        finder->fns->create(finder->owner);
    }
}

void waldo__finder_inspected(waldo__finder *finder, waldo_status status, const waldo_error *error,
                             const waldo__json_value *labels)
{
    if (status == WALDO_ENOTFOUND) {
        fail(finder, status,
             "the saved machine is there no more: its lease ended, or it was killed; open a new "
             "one");
    } else if (status != WALDO_OK) {
        finder->fns->failed(finder->owner, status, error);
    } else if (!waldo__str_is(waldo__json_get_str(labels, WALDO__LABEL_RUN), finder->run)) {
        fail(finder, WALDO_EACCESS, "the machine is not the one that was saved; it is left alone");
    } else {
        finder->lease_ms = finder->lease_asked ? finder->lease_ms : waldo__labels_lease(labels);
        finder->reached = 1;
        finder->fns->reach(finder->owner);
    }
}

void waldo__finder_reached(waldo__finder *finder, waldo_status status, const waldo_error *error)
{
    if (status == WALDO_OK && finder->value == finder->run) { /* made, though nobody said so */
        settle(finder);
    } else if (status == WALDO_OK) {
        finder->fns->ready(finder->owner);
    } else if (status == WALDO_ENOTFOUND) {
        fail(
            finder, status,
            "there is no such machine any more: its time was over, it was killed, or it is another "
            "key's; open a new one");
    } else {
        finder->fns->failed(finder->owner, status, error);
    }
}
