#include "codec/hand.h"

#define KEEPER_EXIT_LEN 12u

/* Text that only a hand can have sent by design; kept short because it is shown to people. */
#define ERROR_TEXT_MAX 256u

static uint64_t get_le(const uint8_t *bytes, size_t size)
{
    uint64_t value = 0;

    for (size_t i = size; i > 0; i--) {
        value = value << 8 | bytes[i - 1];
    }
    return value;
}

static int32_t get_i32(const uint8_t *bytes)
{
    uint32_t value = (uint32_t)get_le(bytes, 4);
    int32_t result;

    memcpy(&result, &value, sizeof result);
    return result;
}

struct payload {
    const uint8_t *ptr;
    size_t len;
};

/* Each fills in an event from a payload of at least the minimum; NULL or what is wrong. */
typedef const char *decode_fn(waldo__hand_decoder *decoder, struct payload in,
                              waldo__hand_event *event);

static const char *decode_hello(waldo__hand_decoder *decoder, struct payload in,
                                waldo__hand_event *event)
{
    waldo__hand_hello *hello = &event->u.hello;

    if (event->id != 0 || memcmp(in.ptr, WALDO_HAND_MAGIC, 4) != 0) {
        return "greeting is not a hand's";
    }
    hello->version = (uint16_t)get_le(in.ptr + 4, 2);
    hello->arch = (uint16_t)get_le(in.ptr + 6, 2);
    hello->features = get_le(in.ptr + 8, 8);
    hello->pid = (uint32_t)get_le(in.ptr + 32, 4);
    hello->uid = (uint32_t)get_le(in.ptr + 36, 4);
    hello->max_payload = (uint32_t)get_le(in.ptr + 40, 4);
    hello->max_jobs = (uint32_t)get_le(in.ptr + 44, 4);
    hello->release = (uint32_t)get_le(in.ptr + 48, 4);
    if (memcmp(in.ptr + 16, decoder->nonce, WALDO_HAND_NONCE_LEN) != 0) {
        return "greeting does not answer ours: the nonce differs";
    }
    if (hello->version != WALDO_HAND_VERSION) {
        return "hand speaks another protocol version";
    }
    if (hello->max_payload < WALDO_HAND_PAYLOAD_MAX || hello->max_jobs == 0) {
        return "hand takes smaller frames or fewer commands than the protocol says";
    }
    return NULL;
}

static const char *decode_pid(waldo__hand_decoder *decoder, struct payload in,
                              waldo__hand_event *event)
{
    (void)decoder;
    event->u.pid = (uint32_t)get_le(in.ptr, 4);
    return NULL;
}

static const char *decode_start_error(waldo__hand_decoder *decoder, struct payload in,
                                      waldo__hand_event *event)
{
    (void)decoder;
    event->u.start_error.err = get_i32(in.ptr);
    event->u.start_error.phase = in.ptr[4];
    if (event->u.start_error.err <= 0 || event->u.start_error.err > 4095 ||
        in.ptr[4] < WALDO_HAND_PHASE_REQUEST || in.ptr[4] > WALDO_HAND_PHASE_PTY) {
        return "start error with an impossible errno or phase";
    }
    return NULL;
}

static const char *decode_output(waldo__hand_decoder *decoder, struct payload in,
                                 waldo__hand_event *event)
{
    (void)decoder;
    event->u.output.offset = get_le(in.ptr, 8);
    event->u.output.bytes = waldo__strn((const char *)in.ptr + WALDO_HAND_OUT_HEADER_LEN,
                                        in.len - WALDO_HAND_OUT_HEADER_LEN);
    if (event->u.output.bytes.len > WALDO_HAND_CHUNK_MAX ||
        event->u.output.offset > UINT64_MAX - WALDO_HAND_CHUNK_MAX) {
        return "output frame with an impossible length or offset";
    }
    return NULL;
}

static const char *read_exit(const uint8_t *in, waldo__hand_exit *exit)
{
    exit->how = in[0];
    exit->value = get_i32(in + 4);
    exit->flags = (uint32_t)get_le(in + 8, 4);
    exit->capture_errno = get_i32(in + 12);
    for (size_t i = 0; i < 2; i++) {
        exit->total[i] = get_le(in + 16 + 8 * i, 8);
        exit->sent[i] = get_le(in + 32 + 8 * i, 8);
        if (exit->sent[i] > exit->total[i]) {
            return "exit frame counts more output sent than read";
        }
    }
    exit->captured = get_le(in + 48, 8);
    exit->capture_lost = get_le(in + 56, 8);
    exit->wall_ns = get_le(in + 64, 8);
    exit->user_us = get_le(in + 72, 8);
    exit->system_us = get_le(in + 80, 8);
    exit->max_rss_kb = get_le(in + 88, 8);
    if (exit->how > WALDO_HAND_HOW_SIGNALLED ||
        (exit->how == WALDO_HAND_HOW_EXITED && (exit->value < 0 || exit->value > 255)) ||
        (exit->how == WALDO_HAND_HOW_SIGNALLED && (exit->value < 1 || exit->value > 64))) {
        return "exit frame with an impossible status";
    }
    return NULL;
}

static const char *decode_exit(waldo__hand_decoder *decoder, struct payload in,
                               waldo__hand_event *event)
{
    (void)decoder;
    return read_exit(in.ptr, &event->u.exit);
}

static const char *decode_job(waldo__hand_decoder *decoder, struct payload in,
                              waldo__hand_event *event)
{
    waldo__hand_job *job = &event->u.job;

    (void)decoder;
    job->id = (uint32_t)get_le(in.ptr, 4);
    job->state = in.ptr[4];
    job->total = get_le(in.ptr + 8, 8);
    job->oldest = get_le(in.ptr + 16, 8);
    job->label =
        waldo__strn((const char *)in.ptr + WALDO_HAND_JOB_LEN, in.len - WALDO_HAND_JOB_LEN);
    if (job->id == 0 || job->state < WALDO_HAND_STATE_RUNNING ||
        job->state > WALDO_HAND_STATE_ENDED || job->oldest > job->total ||
        job->total - job->oldest > WALDO_HAND_TAIL_MAX || job->label.len > WALDO_HAND_LABEL_MAX) {
        return "job frame with an impossible id, state, count or label";
    }
    return read_exit(in.ptr + WALDO_HAND_JOB_LEN - WALDO_HAND_EXIT_LEN, &job->exit);
}

static const char *decode_data(waldo__hand_decoder *decoder, struct payload in,
                               waldo__hand_event *event)
{
    (void)decoder;
    event->u.bytes = waldo__strn((const char *)in.ptr, in.len);
    return in.len > WALDO_HAND_CHUNK_MAX ? "data frame is too long" : NULL;
}

static const char *decode_pong(waldo__hand_decoder *decoder, struct payload in,
                               waldo__hand_event *event)
{
    (void)decoder;
    event->u.bytes = waldo__strn((const char *)in.ptr, in.len);
    return in.len > WALDO_HAND_PING_MAX ? "pong frame is too long" : NULL;
}

static const char *decode_done(waldo__hand_decoder *decoder, struct payload in,
                               waldo__hand_event *event)
{
    waldo__hand_done *done = &event->u.done;

    (void)decoder;
    done->err = get_i32(in.ptr);
    done->where = in.ptr[4];
    done->flags = in.ptr[5];
    done->value = get_le(in.ptr + 8, 8);
    if (done->err < 0 || done->err > 4095 || done->where > WALDO_HAND_WHERE_UNSUPPORTED) {
        return "done frame with an impossible errno or place";
    }
    return NULL;
}

static const char *decode_credit(waldo__hand_decoder *decoder, struct payload in,
                                 waldo__hand_event *event)
{
    (void)decoder;
    event->u.credit = get_le(in.ptr, 8);
    return event->u.credit > WALDO_HAND_STDIN_WINDOW ? "credit above the window" : NULL;
}

static const char *decode_error(waldo__hand_decoder *decoder, struct payload in,
                                waldo__hand_event *event)
{
    size_t len = in.len - WALDO_HAND_ERROR_LEN;

    event->u.error.code = (uint16_t)get_le(in.ptr, 2);
    event->u.error.text = waldo__strn((const char *)in.ptr + WALDO_HAND_ERROR_LEN, len);
    if (event->id != 0 || len > ERROR_TEXT_MAX) {
        return "error frame with an id, or too long";
    }
    for (size_t i = 0; i < len; i++) {
        if (event->u.error.text.ptr[i] < 0x20 || event->u.error.text.ptr[i] > 0x7e) {
            return "error frame whose text is not printable";
        }
    }
    decoder->ended = 1;
    return NULL;
}

static const char *decode_keeper_failed(waldo__hand_decoder *decoder, struct payload in,
                                        waldo__hand_event *event)
{
    decoder->ended = 1;
    return decode_start_error(decoder, in, event);
}

static const char *decode_keeper_exit(waldo__hand_decoder *decoder, struct payload in,
                                      waldo__hand_event *event)
{
    waldo__hand_keeper_exit *exit = &event->u.keeper_exit;

    decoder->ended = 1;
    exit->how = in.ptr[0];
    exit->gone = in.ptr[1] == 1;
    exit->value = get_i32(in.ptr + 4);
    exit->stderr_total = (uint32_t)get_le(in.ptr + 8, 4);
    exit->stderr_text =
        waldo__strn((const char *)in.ptr + KEEPER_EXIT_LEN, in.len - KEEPER_EXIT_LEN);
    if (exit->how > WALDO_HAND_HOW_SIGNALLED || exit->stderr_text.len > WALDO_HAND_STDERR_MAX ||
        exit->stderr_text.len > exit->stderr_total) {
        return "keeper's exit frame with an impossible status or length";
    }
    return NULL;
}

enum id_rule { ID_ANY, ID_ZERO, ID_SET };

static const struct kind {
    uint8_t type;
    uint8_t is_keeper;
    uint8_t id; /* id_rule */
    uint8_t min_len;
    decode_fn *decode;
} kinds[] = {
    { WALDO_HAND_HELLO, 0, ID_ZERO, WALDO_HAND_HELLO_LEN, decode_hello },
    { WALDO_HAND_CREDIT, 0, ID_SET, 8, decode_credit },
    { WALDO_HAND_STARTED, 0, ID_SET, WALDO_HAND_STARTED_LEN, decode_pid },
    { WALDO_HAND_START_ERROR, 0, ID_SET, WALDO_HAND_START_ERROR_LEN, decode_start_error },
    { WALDO_HAND_OUT, 0, ID_SET, WALDO_HAND_OUT_HEADER_LEN + 1, decode_output },
    { WALDO_HAND_ERR, 0, ID_SET, WALDO_HAND_OUT_HEADER_LEN + 1, decode_output },
    { WALDO_HAND_EXIT, 0, ID_SET, WALDO_HAND_EXIT_LEN, decode_exit },
    { WALDO_HAND_DATA, 0, ID_SET, 1, decode_data },
    { WALDO_HAND_DONE, 0, ID_ANY, WALDO_HAND_DONE_LEN, decode_done },
    { WALDO_HAND_PONG, 0, ID_ANY, 0, decode_pong },
    { WALDO_HAND_ERROR, 0, ID_ZERO, WALDO_HAND_ERROR_LEN, decode_error },
    { WALDO_HAND_JOB, 0, ID_SET, WALDO_HAND_JOB_LEN, decode_job },
    { WALDO_HAND_KEEPER_STARTED, 1, ID_ZERO, 4, decode_pid },
    { WALDO_HAND_KEEPER_FAILED, 1, ID_ZERO, WALDO_HAND_START_ERROR_LEN, decode_keeper_failed },
    { WALDO_HAND_KEEPER_EXIT, 1, ID_ZERO, KEEPER_EXIT_LEN, decode_keeper_exit },
};

static const struct kind *find_kind(const waldo__hand_decoder *decoder, uint8_t type)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (kinds[i].type == type && kinds[i].is_keeper == decoder->is_keeper) {
            return &kinds[i];
        }
    }
    return NULL;
}

static waldo_status fail(waldo__hand_decoder *decoder, waldo_status status, const char *problem)
{
    decoder->status = status;
    decoder->problem = problem;
    return status;
}

/* May a frame of this type come now? The first frame opens the stream, ERROR may come instead. */
static const char *check_order(const waldo__hand_decoder *decoder, uint8_t type)
{
    int opens = type == WALDO_HAND_HELLO || type == WALDO_HAND_KEEPER_STARTED ||
                type == WALDO_HAND_KEEPER_FAILED;

    if (decoder->ended) {
        return "frame after the last one";
    }
    if (!decoder->greeted && !opens && type != WALDO_HAND_ERROR) {
        return "first bytes are not a greeting";
    }
    return decoder->greeted && opens ? "second greeting" : NULL;
}

/* Judges a header as soon as it is there, so that a stranger's bytes are not waited upon. */
static const char *check_header(const waldo__hand_decoder *decoder, const uint8_t *header)
{
    uint32_t len = (uint32_t)get_le(header, 4);
    uint32_t id = (uint32_t)get_le(header + 5, 4);
    const struct kind *kind = find_kind(decoder, header[4]);
    const char *problem = check_order(decoder, header[4]);

    if (problem != NULL) {
        return problem;
    }
    if (len > WALDO_HAND_PAYLOAD_MAX) {
        return "frame is too long";
    }
    if (kind == NULL) {
        return (header[4] & WALDO_HAND_TYPE_OPTIONAL) != 0 ? NULL : "unknown frame type";
    }
    if (len < kind->min_len) {
        return "frame is too short for its type";
    }
    if ((kind->id == ID_ZERO && id != 0) || (kind->id == ID_SET && id == 0)) {
        return "frame whose id does not fit its type";
    }
    return NULL;
}

static waldo_status on_frame(waldo__hand_decoder *decoder, const uint8_t *frame, size_t len,
                             waldo__hand_fn fn, void *userdata)
{
    waldo__hand_event event = { .type = frame[4], .id = (uint32_t)get_le(frame + 5, 4) };
    struct payload in = { frame + WALDO_HAND_HEADER_LEN, len - WALDO_HAND_HEADER_LEN };
    const struct kind *kind = find_kind(decoder, frame[4]);
    const char *problem;
    waldo_status status;

    if (kind == NULL) {
        return WALDO_OK; /* optional, see check_header */
    }
    problem = kind->decode(decoder, in, &event);
    if (problem != NULL) {
        return fail(decoder, WALDO_EPROTO, problem);
    }
    decoder->greeted = 1;
    status = fn(userdata, &event);
    return status == WALDO_OK ? WALDO_OK : fail(decoder, status, "");
}

/* Whole length of the frame that starts here, 0 when its header is not complete yet. */
static waldo_status frame_length(waldo__hand_decoder *decoder, waldo_str bytes, size_t *ret_len)
{
    const uint8_t *header = (const uint8_t *)bytes.ptr;
    const char *problem;

    *ret_len = 0;
    if (bytes.len < WALDO_HAND_HEADER_LEN) {
        return WALDO_OK;
    }
    problem = check_header(decoder, header);
    if (problem != NULL) {
        return fail(decoder, WALDO_EPROTO, problem);
    }
    *ret_len = WALDO_HAND_HEADER_LEN + (size_t)get_le(header, 4);
    return WALDO_OK;
}

void waldo__hand_decoder_init(waldo__hand_decoder *decoder,
                              const uint8_t nonce[WALDO_HAND_NONCE_LEN])
{
    *decoder = (waldo__hand_decoder){ .problem = "" };
    waldo__buf_init(&decoder->partial, WALDO_HAND_HEADER_LEN + WALDO_HAND_PAYLOAD_MAX);
    memcpy(decoder->nonce, nonce, WALDO_HAND_NONCE_LEN);
}

void waldo__hand_decoder_init_keeper(waldo__hand_decoder *decoder)
{
    static const uint8_t none[WALDO_HAND_NONCE_LEN];

    waldo__hand_decoder_init(decoder, none);
    decoder->is_keeper = 1;
}

void waldo__hand_decoder_free(waldo__hand_decoder *decoder)
{
    waldo__buf_free(&decoder->partial);
}

/* Adds to the frame that began in an earlier call, until it is whole or the bytes are used up. */
static waldo_status feed_partial(waldo__hand_decoder *decoder, waldo_str *bytes, waldo__hand_fn fn,
                                 void *userdata)
{
    waldo__buf *partial = &decoder->partial;
    size_t want = WALDO_HAND_HEADER_LEN;
    waldo_status status = WALDO_OK;

    if (partial->len >= WALDO_HAND_HEADER_LEN) {
        status = frame_length(decoder, waldo__buf_str(partial), &want);
    }
    while (status == WALDO_OK && bytes->len > 0 && partial->len < want) {
        size_t len = want - partial->len < bytes->len ? want - partial->len : bytes->len;

        status = waldo__buf_add(partial, bytes->ptr, len);
        if (status != WALDO_OK) {
            return fail(decoder, status, "");
        }
        bytes->ptr += len;
        bytes->len -= len;
        if (partial->len >= WALDO_HAND_HEADER_LEN) {
            status = frame_length(decoder, waldo__buf_str(partial), &want);
        }
    }
    if (status == WALDO_OK && partial->len == want) {
        status = on_frame(decoder, (const uint8_t *)partial->ptr, want, fn, userdata);
        waldo__buf_clear(partial);
    }
    return status;
}

waldo_status waldo__hand_feed(waldo__hand_decoder *decoder, waldo_str bytes, waldo__hand_fn fn,
                              void *userdata)
{
    waldo_status status = decoder->status;

    while (status == WALDO_OK && bytes.len > 0) {
        size_t len = 0;

        if (decoder->partial.len == 0) {
            status = frame_length(decoder, bytes, &len);
        }
        if (status != WALDO_OK) {
            break;
        }
        if (len == 0 || len > bytes.len) {
            status = feed_partial(decoder, &bytes, fn, userdata);
            continue;
        }
        status = on_frame(decoder, (const uint8_t *)bytes.ptr, len, fn, userdata);
        bytes.ptr += len;
        bytes.len -= len;
    }
    return status;
}

waldo_status waldo__hand_finish(waldo__hand_decoder *decoder)
{
    if (decoder->status == WALDO_OK && decoder->partial.len > 0) {
        return fail(decoder, WALDO_ETRUNCATED, "stream ended inside a frame");
    }
    if (decoder->status == WALDO_OK && !decoder->greeted) {
        return fail(decoder, WALDO_ETRUNCATED, "stream ended before a greeting");
    }
    return decoder->status;
}

const char *waldo__hand_problem(const waldo__hand_decoder *decoder)
{
    return decoder->problem;
}

/* STAT's entry has no name; a name of LIST must be one that a directory can hold. */
static int name_is_good(waldo_str name)
{
    return memchr(name.ptr, '/', name.len) == NULL && memchr(name.ptr, 0, name.len) == NULL &&
           !waldo__str_is(name, ".") && !waldo__str_is(name, "..");
}

waldo_status waldo__hand_next_entry(waldo_str *rest, waldo__hand_entry *ret_entry)
{
    const uint8_t *in = (const uint8_t *)rest->ptr;
    waldo__hand_entry entry;
    size_t name_len, target_len;

    if (rest->len == 0) {
        return WALDO_END;
    }
    if (rest->len < WALDO_HAND_ENTRY_LEN) {
        return WALDO_EPROTO;
    }
    name_len = (size_t)get_le(in + 2, 2);
    target_len = (size_t)get_le(in + 36, 4);
    if (name_len > rest->len - WALDO_HAND_ENTRY_LEN ||
        target_len > rest->len - WALDO_HAND_ENTRY_LEN - name_len) {
        return WALDO_EPROTO;
    }
    entry.kind = in[0];
    entry.mode = (uint32_t)get_le(in + 4, 4);
    entry.size = get_le(in + 8, 8);
    entry.mtime_s = (int64_t)get_le(in + 16, 8);
    entry.mtime_ns = (uint32_t)get_le(in + 24, 4);
    entry.uid = (uint32_t)get_le(in + 28, 4);
    entry.gid = (uint32_t)get_le(in + 32, 4);
    entry.name = waldo__slice(rest->ptr + WALDO_HAND_ENTRY_LEN, name_len);
    entry.target = waldo__strn(entry.name.ptr + name_len, target_len);
    if (entry.kind > WALDO_HAND_KIND_BLOCK || entry.mode > 07777 || entry.size > INT64_MAX ||
        entry.mtime_ns > 999999999 || !name_is_good(entry.name)) {
        return WALDO_EPROTO;
    }
    rest->ptr += WALDO_HAND_ENTRY_LEN + name_len + target_len;
    rest->len -= WALDO_HAND_ENTRY_LEN + name_len + target_len;
    *ret_entry = entry;
    return WALDO_OK;
}
