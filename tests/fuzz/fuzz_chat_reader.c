/* An answer of Chat Completions, cut by its first byte: see reader.h. */
#include "reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_reader(&waldo__chat_ops, "chat:http://h#m", data, size);
    return 0;
}
