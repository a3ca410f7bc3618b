/* Reads a RUN request. */
#include <errno.h>
#include <string.h>

#include "job.h"

#define FLAGS_KNOWN                                                                                \
    (WALDO_HAND_RUN_MERGE | WALDO_HAND_RUN_STDIN | WALDO_HAND_RUN_CLEAR_ENV |                      \
     WALDO_HAND_RUN_KILL_LEFTOVERS | WALDO_HAND_RUN_PTY | WALDO_HAND_RUN_KEEP)

static int check_path(const struct field *field)
{
    if (field->len == 0 || field_has_nul(field)) {
        return EINVAL;
    }
    return field->len > WALDO_HAND_PATH_MAX ? ENAMETOOLONG : 0;
}

static int check_env(const struct field *field)
{
    return field->len == 0 || field->ptr[0] == '=' || field_has_nul(field) ? EINVAL : 0;
}

static int take_path(const struct field *field, struct field *ret_path)
{
    *ret_path = *field;
    return check_path(field);
}

static int take_u32(const struct field *field, uint32_t *ret_value)
{
    return field_u32(field, ret_value) ? 0 : EINVAL;
}

static int take_u64(const struct field *field, uint64_t *ret_value)
{
    return field_u64(field, ret_value) ? 0 : EINVAL;
}

static int take_size(const struct field *field, struct run *run)
{
    if (field->len != 4) {
        return EINVAL;
    }
    run->has_size = true;
    run->rows = get_u16(field->ptr);
    run->columns = get_u16(field->ptr + 2);
    return 0;
}

/* One field of its own kind; EOPNOTSUPP for what this version does not know. */
static int take_field(struct run *run, const struct field *field)
{
    switch (field->tag) {
    case WALDO_HAND_F_FLAGS:
        return take_u32(field, &run->flags);
    case WALDO_HAND_F_ARG:
        return ++run->args > WALDO_HAND_ARGS_MAX ? E2BIG : field_has_nul(field) ? EINVAL : 0;
    case WALDO_HAND_F_ENV:
        return ++run->envs > WALDO_HAND_ARGS_MAX ? E2BIG : check_env(field);
    case WALDO_HAND_F_SCRIPT:
        run->script = *field;
        return field_has_nul(field) ? EINVAL : 0;
    case WALDO_HAND_F_CWD:
        return take_path(field, &run->cwd);
    case WALDO_HAND_F_TIMEOUT_MS:
        return take_u32(field, &run->timeout_ms);
    case WALDO_HAND_F_GRACE_MS:
        return take_u32(field, &run->grace_ms);
    case WALDO_HAND_F_OUT_HEAD:
        return take_u64(field, &run->head[0]);
    case WALDO_HAND_F_ERR_HEAD:
        return take_u64(field, &run->head[1]);
    case WALDO_HAND_F_OUT_TAIL:
        return take_u32(field, &run->tail[0]);
    case WALDO_HAND_F_ERR_TAIL:
        return take_u32(field, &run->tail[1]);
    case WALDO_HAND_F_CAPTURE_PATH:
        return take_path(field, &run->capture_path);
    case WALDO_HAND_F_CAPTURE_MAX:
        return take_u64(field, &run->capture_max);
    case WALDO_HAND_F_CREDIT:
        run->has_credit = true;
        return take_u64(field, &run->credit);
    case WALDO_HAND_F_PTY:
        return take_size(field, run);
    case WALDO_HAND_F_LABEL:
        run->label = *field;
        return field->len > WALDO_HAND_LABEL_MAX ? EINVAL : 0;
    default:
        return (field->tag & WALDO_HAND_FIELD_OPTIONAL) != 0 ? 0 : EOPNOTSUPP;
    }
}

static bool may_repeat(uint16_t tag)
{
    return tag == WALDO_HAND_F_ARG || tag == WALDO_HAND_F_ENV;
}

/* A kept command has one stream, which goes to its tail as a whole and is never sent unasked. */
static int check_kept(struct run *run)
{
    bool fits = (run->flags & (WALDO_HAND_RUN_MERGE | WALDO_HAND_RUN_PTY)) != 0 &&
                run->tail[0] > 0 && run->head[0] == UINT64_MAX && !run->has_credit;

    run->head[0] = 0;
    return fits ? 0 : EINVAL;
}

int run_decode(const struct frame *frame, struct run *ret_run, uint8_t *ret_phase)
{
    struct run run = { .frame = frame,
                       .grace_ms = WALDO_HAND_GRACE_DEFAULT_MS,
                       .head = { UINT64_MAX, UINT64_MAX },
                       .capture_max = UINT64_MAX,
                       .rows = WALDO_HAND_PTY_ROWS,
                       .columns = WALDO_HAND_PTY_COLUMNS };
    struct fields it;
    struct field field;
    uint64_t seen = 0;
    int err = 0, got;

    fields_init(&it, frame);
    while ((got = fields_next(&it, &field)) == 1) {
        bool again = field.tag < 64 && (seen >> field.tag & 1) != 0 && !may_repeat(field.tag);
        int field_err = again ? EINVAL : take_field(&run, &field);

        seen |= field.tag < 64 ? UINT64_C(1) << field.tag : 0;
        err = err != 0 ? err : field_err;
    }
    if (got < 0) {
        return -1;
    }
    if (err == 0 && (run.flags & ~FLAGS_KNOWN) != 0) {
        err = EOPNOTSUPP;
    }
    if (err == 0 && ((run.args == 0 && run.script.ptr == NULL) ||
                     (run.has_size && (run.flags & WALDO_HAND_RUN_PTY) == 0) ||
                     (run.label.len > 0 && (run.flags & WALDO_HAND_RUN_KEEP) == 0) ||
                     run.tail[0] > WALDO_HAND_TAIL_MAX || run.tail[1] > WALDO_HAND_TAIL_MAX)) {
        err = EINVAL;
    }
    if (err == 0 && (run.flags & WALDO_HAND_RUN_KEEP) != 0) {
        err = check_kept(&run);
    }
    *ret_phase = err == EOPNOTSUPP ? WALDO_HAND_PHASE_UNSUPPORTED : WALDO_HAND_PHASE_REQUEST;
    *ret_run = run;
    return err;
}
