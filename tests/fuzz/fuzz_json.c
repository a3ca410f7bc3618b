/*
 * What is accepted prints as JSON that is accepted and prints the same; the scan for a complete
 * value gives one answer whatever the pieces; any bytes can be written as a string and are read
 * back.
 */
#include "fuzz.h"

#include <string.h>

#include "base/utf8.h"
#include "json/json.h"

enum { MAX_PRINTED = 1 << 24 };

/* Print what the text holds; 0 when it is refused. */
static int reprint(waldo_str text, const waldo__json_limits *limits, waldo__buf *out)
{
    waldo__json *doc = NULL;
    waldo_error *error = NULL;
    waldo_status status = waldo__json_parse(text, limits, &doc, &error);

    must_hold((status == WALDO_OK) == (doc != NULL), "a document exactly on success");
    must_hold((status == WALDO_OK) == (error == NULL), "an error exactly on failure");
    if (status == WALDO_OK) {
        must_hold(waldo__json_print(waldo__json_root(doc), out) == WALDO_OK, "it can be printed");
    }
    waldo__json_free(doc);
    waldo_error_free(error);
    return status == WALDO_OK;
}

static void check_parse(waldo_str text, const waldo__json_limits *limits)
{
    waldo__buf once = WALDO__BUF_INIT(MAX_PRINTED);
    waldo__buf twice = WALDO__BUF_INIT(MAX_PRINTED);

    if (reprint(text, limits, &once)) {
        must_hold(waldo__utf8_valid(waldo__buf_str(&once)), "printed JSON is UTF-8");
        must_hold(reprint(waldo__buf_str(&once), limits, &twice), "printed JSON is accepted");
        must_hold(waldo__str_eq(waldo__buf_str(&once), waldo__buf_str(&twice)),
                  "printing again changes nothing");
    }
    waldo__buf_free(&once);
    waldo__buf_free(&twice);
}

static void check_scan(waldo_str text, size_t step)
{
    waldo__json_scan whole;
    waldo__json_scan cut;

    memset(&whole, 0, sizeof whole);
    memset(&cut, 0, sizeof cut);
    waldo__json_scan_feed(&whole, text);
    for (size_t at = 0; at < text.len; at += step) {
        size_t len = text.len - at < step ? text.len - at : step;

        waldo__json_scan_feed(&cut, waldo__strn(text.ptr + at, len));
    }
    must_hold(whole.complete == cut.complete, "cuts change nothing for the scan");
    must_hold(!whole.complete || whole.end == cut.end, "the value ends at one place");
    must_hold(!whole.complete || whole.end <= text.len, "the value ends in the text");
}

static void check_string(waldo_str text)
{
    waldo__buf out = WALDO__BUF_INIT(MAX_PRINTED);
    waldo__buf clean = WALDO__BUF_INIT(MAX_PRINTED);
    waldo__json_writer writer;
    waldo__json *doc = NULL;
    waldo_str back = { NULL, 0 };

    waldo__json_writer_init(&writer, &out);
    waldo__jw_str(&writer, NULL, text);
    waldo__utf8_clean(text, &clean);
    must_hold(waldo__json_parse(waldo__buf_str(&out), NULL, &doc, NULL) == WALDO_OK,
              "a written string is JSON");
    must_hold(waldo__json_str(waldo__json_root(doc), &back), "and it is a string");
    must_hold(waldo__str_eq(back, waldo__buf_str(&clean)), "with the text it was given");
    waldo__json_free(doc);
    waldo__buf_free(&out);
    waldo__buf_free(&clean);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const waldo__json_limits tolerant = { .allow_duplicates = 1, .repair_surrogates = 1 };
    waldo_str text = waldo__strn((const char *)data, size);

    check_parse(text, NULL);
    check_parse(text, &tolerant);
    check_scan(text, size > 0 ? data[size - 1] % 5U + 1 : 1);
    check_string(text);
    return 0;
}
