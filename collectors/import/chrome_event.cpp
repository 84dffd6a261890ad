// SPDX-License-Identifier: Apache-2.0
#include "collectors/import/chrome_event.h"

#include <algorithm>
#include <array>
#include <utility>

namespace piper {
namespace {

template <class Field, std::size_t N>
std::string_view* find(const std::array<std::pair<std::string_view, Field>, N>& keys,
                       std::string_view key, ChromeEvent& out) {
    // Most keys are told apart by their length and first letter, without a call.
    for (const auto& [name, field] : keys)
        if (name.size() == key.size() && name.front() == key.front() && name == key)
            return &(out.*field);
    return nullptr;
}

using Field = std::string_view ChromeEvent::*;
constexpr std::array<std::pair<std::string_view, Field>, 8> kKeys = {
    {{"ph", &ChromeEvent::phase},
     {"cat", &ChromeEvent::category},
     {"name", &ChromeEvent::name},
     {"pid", &ChromeEvent::process},
     {"tid", &ChromeEvent::thread},
     {"ts", &ChromeEvent::time},
     {"dur", &ChromeEvent::duration},
     {"id", &ChromeEvent::id}}};
constexpr std::array<std::pair<std::string_view, Field>, 13> kArgs = {
    {{"External id", &ChromeEvent::external_id},
     {"external id", &ChromeEvent::external_id},
     {"correlation", &ChromeEvent::correlation},
     {"device", &ChromeEvent::device},
     {"stream", &ChromeEvent::stream},
     {"bytes", &ChromeEvent::bytes},
     {"Bytes", &ChromeEvent::bytes},
     {"name", &ChromeEvent::text},
     {"value", &ChromeEvent::value},
     {"In msg nelems", &ChromeEvent::elements},
     {"In msg size", &ChromeEvent::elements},
     {"dtype", &ChromeEvent::dtype},
     {"Total Allocated", &ChromeEvent::value}}};

/// The value behind a key into its field; anything else is passed over.
bool readField(JsonCursor& in, std::string_view* field) {
    const char first = in.peek();
    if (first == 0) return false;
    if (field == nullptr || first == '{' || first == '[') return in.skip();
    bool is_string = false;
    std::string_view text;
    if (!in.scalar(text, is_string)) return false;
    *field = text == "null" && !is_string ? std::string_view() : text;
    return true;
}

/// Calls `member(key)` behind each key of the object at the cursor.
template <class Member>
bool eachMember(JsonCursor& in, Member member) {
    if (!in.take('{')) return false;
    if (in.take('}')) return true;
    std::string scratch;
    while (!in.incomplete()) {
        std::string_view key;
        if (!in.key(key)) return false;
        // Letters of a key may be escaped.
        if (key.find('\\') != std::string_view::npos) key = decodeJsonText(key, scratch);
        if (!member(key)) return false;
        if (in.take('}')) return true;
        if (!in.take(',')) return false;
        if (in.take('}')) return true;
    }
    return false;
}

bool readArgs(JsonCursor& in, ChromeEvent& out) {
    if (in.peek() != '{') return in.skip();
    return eachMember(in, [&](std::string_view key) {
        std::string_view* field = find(kArgs, key, out);
        if (field == nullptr && out.first_arg.empty()) field = &out.first_arg;
        return readField(in, field);
    });
}

bool isOneOf(std::string_view word, std::initializer_list<std::string_view> words) {
    return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

bool readChromeEvent(JsonCursor& in, ChromeEvent& out) {
    const char first = in.peek();
    if (first == 0) return false;
    out.is_object = first == '{';
    if (!out.is_object) return in.skip();
    return eachMember(in, [&](std::string_view key) {
        if (key == "args") return readArgs(in, out);
        return readField(in, find(kKeys, key, out));
    });
}

EventCategory chromeCategory(std::string_view category) {
    std::string word(category);
    for (char& c : word) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    if (word == "kernel") return EventCategory::Kernel;
    if (isOneOf(word, {"gpu_memcpy", "memcpy"})) return EventCategory::Memcpy;
    if (isOneOf(word, {"gpu_memset", "memset"})) return EventCategory::Memset;
    if (isOneOf(word, {"cuda_sync", "sync", "synchronization", "gpu_sync"}))
        return EventCategory::Synchronization;
    if (word == "runtime" || word == "driver" || word.ends_with("_runtime") ||
        word.ends_with("_driver"))
        return EventCategory::Runtime;
    if (isOneOf(word, {"cpu_op", "operator", "python_function"}))
        return EventCategory::HostOperation;
    if (word == "user_annotation") return EventCategory::Annotation;
    if (word == "gpu_user_annotation") return EventCategory::DeviceAnnotation;
    return EventCategory::Other;
}

std::int64_t dtypeBytes(std::string_view dtype) {
    if (isOneOf(dtype, {"Double", "Long", "ComplexFloat"})) return 8;
    if (isOneOf(dtype, {"Float", "Int", "float", "int"})) return 4;
    if (isOneOf(dtype, {"BFloat16", "Half", "Short"})) return 2;
    if (isOneOf(dtype, {"Byte", "Char", "Bool"}) || dtype.starts_with("Float8")) return 1;
    return 0;
}

}  // namespace piper
