/* Chat messages: any bytes are refused or read; what is written of them reads the same again. */
#include "fuzz.h"

#include "transcript/messages.h"

/* Read, and write what was read; 0: refused. */
static int convert(waldo_str json, waldo__buf *out)
{
    waldo__messages messages = { .count = 0 };
    waldo__transcript transcript = { .count = 0 };
    waldo_error *error = NULL;
    waldo_status status = waldo__messages_read(json, &messages, &error);

    must_hold((status == WALDO_OK) == (error == NULL), "a refusal says why");
    if (status == WALDO_OK) {
        must_hold(waldo__transcript_append(&transcript, messages.at, messages.count) == WALDO_OK &&
                      waldo__messages_write(&transcript, transcript.count, out) == WALDO_OK,
                  "what was read is written");
    }
    waldo_error_free(error);
    waldo__transcript_free(&transcript);
    waldo__messages_free(&messages);
    return status == WALDO_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    waldo__buf first = WALDO__BUF_INIT(SIZE_MAX / 4), second = WALDO__BUF_INIT(SIZE_MAX / 4);

    if (convert(waldo__strn((const char *)data, size), &first)) {
        must_hold(convert(waldo__buf_str(&first), &second), "what was written is read");
        must_hold(waldo__str_eq(waldo__buf_str(&first), waldo__buf_str(&second)),
                  "and is the same again");
    }
    waldo__buf_free(&first);
    waldo__buf_free(&second);
    return 0;
}
