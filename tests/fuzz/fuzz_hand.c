/*
 * What a hand may send. Byte 0 cuts the rest into pieces and says whether it is a keeper's stream;
 * the events must be those of the bytes fed at once, and every text must lie in what was fed.
 */
#include "fuzz.h"

#include <string.h>

#include "codec/hand.h"

static const uint8_t nonce[WALDO_HAND_NONCE_LEN] = "0123456789abcdef";

static void note_entries(waldo__buf *out, waldo_str rest)
{
    waldo__hand_entry entry;
    size_t before = rest.len + 1;
    waldo_status status;

    while ((status = waldo__hand_next_entry(&rest, &entry)) == WALDO_OK) {
        must_hold(rest.len < before, "each entry takes bytes");
        must_hold(waldo__str_find(entry.name, '/') == entry.name.len, "a name has no slash");
        must_hold(!waldo__str_is(entry.name, "..") && !waldo__str_is(entry.name, "."),
                  "a name is not a way out");
        before = rest.len;
    }
    waldo__buf_printf(out, "entries end with %d,", (int)status);
}

static waldo_status note(void *userdata, const waldo__hand_event *event)
{
    waldo__buf *out = userdata;

    waldo__buf_printf(out, "%u/%u:", event->type, (unsigned)event->id);
    switch (event->type) {
    case WALDO_HAND_OUT:
    case WALDO_HAND_ERR:
        waldo__buf_add_str(out, event->u.output.bytes);
        break;
    case WALDO_HAND_DATA:
        waldo__buf_add_str(out, event->u.bytes);
        note_entries(out, event->u.bytes);
        break;
    case WALDO_HAND_ERROR:
        waldo__buf_add_str(out, event->u.error.text);
        break;
    case WALDO_HAND_JOB:
        must_hold(event->u.job.oldest <= event->u.job.total, "what is kept was read");
        must_hold(event->u.job.exit.sent[0] <= event->u.job.exit.total[0],
                  "what was sent was read");
        waldo__buf_printf(out, "%u,%u,", (unsigned)event->u.job.id, event->u.job.state);
        waldo__buf_add_str(out, event->u.job.label);
        break;
    default:
        break;
    }
    return waldo__buf_putc(out, '\n');
}

static waldo_status read_all(const uint8_t *data, size_t size, int is_keeper, size_t step,
                             waldo__buf *out)
{
    waldo__hand_decoder decoder;
    waldo_status status = WALDO_OK;

    if (is_keeper) {
        waldo__hand_decoder_init_keeper(&decoder);
    } else {
        waldo__hand_decoder_init(&decoder, nonce);
    }
    for (size_t at = 0; at < size && status == WALDO_OK; at += step) {
        size_t len = size - at < step ? size - at : step;

        status = waldo__hand_feed(&decoder, waldo__strn((const char *)data + at, len), note, out);
    }
    if (status == WALDO_OK) {
        status = waldo__hand_finish(&decoder);
    }
    must_hold((status == WALDO_OK) == (waldo__hand_problem(&decoder)[0] == '\0'),
              "a failure has a text");
    waldo__hand_decoder_free(&decoder);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo__buf whole = WALDO__BUF_INIT(1 << 24);
    waldo__buf cut = WALDO__BUF_INIT(1 << 24);
    waldo_status status;
    int is_keeper;

    if (size < 2) {
        return 0;
    }
    is_keeper = data[0] >> 7;
    status = read_all(data + 1, size - 1, is_keeper, size, &whole);
    must_hold(read_all(data + 1, size - 1, is_keeper, data[0] % 64U + 1, &cut) == status,
              "cuts do not change how it ends");
    must_hold(waldo__str_eq(waldo__buf_str(&whole), waldo__buf_str(&cut)),
              "cuts do not change the events");
    waldo__buf_free(&whole);
    waldo__buf_free(&cut);
    return 0;
}
