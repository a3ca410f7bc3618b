#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>

#include "golden.h"

#include "base/alloc.h"

const char *golden_dir;

const uint8_t nonce[WALDO_HAND_NONCE_LEN] = { 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17,
                                              0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f };

/* One golden file; the memory lasts until the next. */
waldo_str golden(const char *name)
{
    static char bytes[4096];
    char path[1024];
    size_t len;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s.bin", golden_dir, name);
    file = fopen(path, "rb");
    if (file == NULL) {
        fail_msg("no golden file %s", path);
    }
    len = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_in_range(len, WALDO_HAND_HEADER_LEN, sizeof bytes - 1);
    return waldo__strn(bytes, len);
}

static void describe_exit(waldo__buf *out, const waldo__hand_exit *e)
{
    const uint64_t words[] = {
        e->total[0],     e->total[1], e->sent[0], e->sent[1],   e->captured,
        e->capture_lost, e->wall_ns,  e->user_us, e->system_us, e->max_rss_kb
    };

    waldo__buf_printf(out, " %u %d %x %d", e->how, e->value, e->flags, e->capture_errno);
    for (size_t i = 0; i < WALDO__COUNT(words); i++) {
        waldo__buf_printf(out, " %llu", (unsigned long long)words[i]);
    }
}

/* Text of an event, to be compared. */
waldo_status describe(void *userdata, const waldo__hand_event *event)
{
    waldo__buf *out = userdata;

    waldo__buf_printf(out, "%02x %x", event->type, event->id);
    switch (event->type) {
    case WALDO_HAND_HELLO:
        waldo__buf_printf(out, " v%u arch%u f%llu pid%u uid%u max%u jobs%u rel%x",
                          event->u.hello.version, event->u.hello.arch,
                          (unsigned long long)event->u.hello.features, event->u.hello.pid,
                          event->u.hello.uid, event->u.hello.max_payload, event->u.hello.max_jobs,
                          event->u.hello.release);
        break;
    case WALDO_HAND_CREDIT:
        waldo__buf_printf(out, " %llu", (unsigned long long)event->u.credit);
        break;
    case WALDO_HAND_STARTED:
    case WALDO_HAND_KEEPER_STARTED:
        waldo__buf_printf(out, " %u", event->u.pid);
        break;
    case WALDO_HAND_START_ERROR:
    case WALDO_HAND_KEEPER_FAILED:
        waldo__buf_printf(out, " %d %u", event->u.start_error.err, event->u.start_error.phase);
        break;
    case WALDO_HAND_OUT:
    case WALDO_HAND_ERR:
        waldo__buf_printf(out, " %llu ", (unsigned long long)event->u.output.offset);
        waldo__buf_add_str(out, event->u.output.bytes);
        break;
    case WALDO_HAND_EXIT:
        describe_exit(out, &event->u.exit);
        break;
    case WALDO_HAND_JOB:
        waldo__buf_printf(out, " %u %u %llu %llu", event->u.job.id, event->u.job.state,
                          (unsigned long long)event->u.job.total,
                          (unsigned long long)event->u.job.oldest);
        describe_exit(out, &event->u.job.exit);
        waldo__buf_putc(out, ' ');
        waldo__buf_add_str(out, event->u.job.label);
        break;
    case WALDO_HAND_DONE:
        waldo__buf_printf(out, " %d %u %u %llu", event->u.done.err, event->u.done.where,
                          event->u.done.flags, (unsigned long long)event->u.done.value);
        break;
    case WALDO_HAND_ERROR:
        waldo__buf_printf(out, " %u ", event->u.error.code);
        waldo__buf_add_str(out, event->u.error.text);
        break;
    case WALDO_HAND_KEEPER_EXIT:
        waldo__buf_printf(out, " %u %d %d %u ", event->u.keeper_exit.how, event->u.keeper_exit.gone,
                          event->u.keeper_exit.value, event->u.keeper_exit.stderr_total);
        waldo__buf_add_str(out, event->u.keeper_exit.stderr_text);
        break;
    default:
        waldo__buf_putc(out, ' ');
        waldo__buf_add_str(out, event->u.bytes);
    }
    return waldo__buf_putc(out, '\n');
}

/* Feeds bytes in pieces of cut, then the rest; the events as text. */
void decode(waldo__hand_decoder *decoder, waldo_str bytes, size_t cut, waldo__buf *text)
{
    assert_int_equal(waldo__hand_feed(decoder, waldo__strn(bytes.ptr, cut), describe, text),
                     WALDO_OK);
    assert_int_equal(
        waldo__hand_feed(decoder, waldo__strn(bytes.ptr + cut, bytes.len - cut), describe, text),
        WALDO_OK);
    assert_int_equal(waldo__hand_finish(decoder), WALDO_OK);
}
