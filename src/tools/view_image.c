#include "base/alloc.h"
#include "tools/tools.h"

static void got_file(void *userdata, waldo_status status, waldo_str bytes, uint64_t file_size,
                     const waldo_error *error)
{
    waldo_tool_call *call = userdata;
    const char *path = waldo_tool_call_str(call, "path");

    if (status != WALDO_OK) {
        waldo__tool_fail_with(call, status, error);
    } else if (file_size > WALDO__MEDIA_MAX) {
        waldo_tool_call_fail(call, "%s is larger than 10 MiB: make it smaller with a command",
                             path);
    } else if (bytes.len != file_size) {
        waldo_tool_call_fail(call, "%s changed while it was read: try again", path);
    } else if (waldo__media_mime(bytes) == NULL) {
        waldo_tool_call_fail(
            call, "%s is not a PNG, JPEG, GIF or WebP image: convert it with a command", path);
    } else {
        status = waldo_tool_call_add_image(call, bytes);
        if (status == WALDO_OK) {
            waldo_tool_call_reply(call, "%s: %s, %zu bytes", path, waldo__media_mime(bytes),
                                  bytes.len);
        } else {
            waldo__tool_fail_with(call, status, NULL);
        }
    }
    waldo_tool_call_unref(call);
}

static waldo_status view_image(void *userdata, waldo_tool_call *call)
{
    (void)userdata;
    waldo_tool_call_ref(call);
    waldo_sandbox_read(waldo__tool_call_sandbox(call), waldo_tool_call_str(call, "path"), 0,
                       WALDO__MEDIA_MAX, got_file, call);
    return WALDO_PENDING;
}

const waldo_tool_options waldo__tool_view_image = {
    .size = sizeof(waldo_tool_options),
    .name = "view_image",
    .about = "Look at an image file of the sandbox: PNG, JPEG, GIF or WebP, at most 10 MiB.",
    .params = (const waldo_param[]){ { .name = "path",
                                       .type = WALDO_STRING,
                                       .about = "Absolute, or relative to /workspace." },
                                     { .name = NULL } },
    .call = view_image,
    .flags = WALDO_PARALLEL_SAFE | WALDO_IDEMPOTENT | WALDO_READ_ONLY | WALDO__TOOL_SANDBOX,
};
