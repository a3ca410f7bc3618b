/*
 * What the hand may be sent, read by its own code. Byte 0 cuts the rest into pieces; the frames
 * must be those of the bytes taken at once, and what a request names must lie in its frame.
 */
#include "fuzz.h"

#include <string.h>

#include "hand/job.h"

enum { NOTES_MAX_BYTES = 64 * 1024 };

struct notes {
    size_t len;
    char text[NOTES_MAX_BYTES];
};

static struct inbuf input;

static int lies_in(const struct frame *frame, const uint8_t *ptr, size_t len)
{
    return ptr == NULL || (ptr >= frame->payload && len <= frame->len &&
                           (size_t)(ptr - frame->payload) <= frame->len - len);
}

static void add_note(struct notes *notes, const char *what, long a, long b)
{
    int len = snprintf(notes->text + notes->len, sizeof notes->text - notes->len, "%s %ld %ld,",
                       what, a, b);

    notes->len += (size_t)len < sizeof notes->text - notes->len ? (size_t)len : 0;
}

static void read_run(const struct frame *frame, struct notes *notes)
{
    struct run run;
    uint8_t phase = 0;
    int err = run_decode(frame, &run, &phase);

    add_note(notes, "run", err, phase);
    if (err != 0) {
        return;
    }
    must_hold(run.args > 0 || run.script.ptr != NULL, "there is something to run");
    must_hold(run.args <= WALDO_HAND_ARGS_MAX && run.envs <= WALDO_HAND_ARGS_MAX,
              "words are counted");
    must_hold(run.tail[0] <= WALDO_HAND_TAIL_MAX && run.tail[1] <= WALDO_HAND_TAIL_MAX,
              "tails are bounded");
    must_hold(run.label.len <= WALDO_HAND_LABEL_MAX, "a label is short");
    must_hold(lies_in(frame, run.script.ptr, run.script.len) &&
                  lies_in(frame, run.cwd.ptr, run.cwd.len) &&
                  lies_in(frame, run.capture_path.ptr, run.capture_path.len) &&
                  lies_in(frame, run.label.ptr, run.label.len),
              "what is borrowed lies in the frame");
}

static void read_frame(const struct frame *frame, struct notes *notes)
{
    struct hello hello;
    struct fields it;
    struct field field;
    int got;

    add_note(notes, "frame", frame->type, (long)frame->len);
    add_note(notes, "hello", hello_decode(frame, &hello), 0);
    fields_init(&it, frame);
    while ((got = fields_next(&it, &field)) == 1) {
        must_hold(lies_in(frame, field.ptr, field.len), "a field lies in its frame");
    }
    add_note(notes, "fields", got, 0);
    read_run(frame, notes);
}

static void take(const uint8_t *data, size_t size, size_t piece, struct notes *notes)
{
    struct frame frame;
    int got = 0;

    input.start = input.end = 0;
    notes->len = 0;
    while (size > 0 && got >= 0) {
        size_t room, n = size < piece ? size : piece;
        uint8_t *at = inbuf_space(&input, &room);

        n = n < room ? n : room;
        must_hold(n > 0, "there is room for the rest of a frame");
        memcpy(at, data, n);
        inbuf_added(&input, n);
        data += n;
        size -= n;
        while ((got = inbuf_next(&input, &frame)) == 1) {
            read_frame(&frame, notes);
        }
    }
    add_note(notes, "end", got, inbuf_partial(&input));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct notes whole, pieces;

    if (size < 2) {
        return 0;
    }
    take(data + 1, size - 1, size, &whole);
    take(data + 1, size - 1, 1u + data[0] % 61u, &pieces);
    must_hold(whole.len == pieces.len && memcmp(whole.text, pieces.text, whole.len) == 0,
              "pieces do not matter");
    return 0;
}
