// SPDX-License-Identifier: Apache-2.0
// The parts below the importers: tokens, escapes, numbers and times.
#include <cstdlib>
#include <vector>

#include "collectors/import/byte_source.h"
#include "collectors/import/json_cursor.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::vector<char> text(size + piper::ByteWindow::kSlack, '\0');
    for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(data[i]);
    const std::string_view whole(text.data(), size);
    std::string scratch;
    // A decoded text is never longer than three bytes for each of the raw one.
    if (piper::decodeJsonText(whole, scratch).size() > 3 * size + 3) std::abort();
    std::int64_t value = 0;
    (void)piper::parseMicroseconds(whole, value);
    (void)piper::parseWholeNumber(whole, value);
    for (const bool last : {false, true}) {
        piper::JsonCursor in(text.data(), text.data() + size, last);
        std::string_view raw;
        while (in.raw(raw))
            if (raw.data() < text.data() || raw.data() + raw.size() > text.data() + size)
                std::abort();
        if (in.place() > text.data() + size) std::abort();
    }
    return 0;
}
