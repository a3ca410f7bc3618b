/* An answer of the Messages API, cut by its first byte: see reader.h. */
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_reader(&waldo__messages_ops, "anthropic:m", data, size);
    return 0;
}
