// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "collectors/import/json_cursor.h"
#include "core/run/vocabulary.h"

namespace piper {

/// The fields of one trace event that matter here, as they stand in the text.
struct ChromeEvent {
    std::string_view phase, category, name, process, thread, time, duration, id;
    // of its args
    std::string_view device, stream, correlation, external_id, bytes, text, value;
    std::string_view elements, dtype;
    std::string_view first_arg;  ///< of a counter: its value, named as it likes
    bool is_object = false;
};

/// Reads the element at the cursor. False: incomplete, or no JSON.
[[nodiscard]] bool readChromeEvent(JsonCursor& in, ChromeEvent& out);

/// What a category text of a complete event means.
[[nodiscard]] EventCategory chromeCategory(std::string_view category);

/// Bytes of an element of a data type as PyTorch names it; 0 for an unknown one.
[[nodiscard]] std::int64_t dtypeBytes(std::string_view dtype);

}  // namespace piper
