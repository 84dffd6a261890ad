// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace piper {

/// One message in the wire format of protocol buffers, field by field as they are added.
/// Source: https://protobuf.dev/programming-guides/encoding
class ProtoMessage {
public:
    ProtoMessage& number(std::uint32_t field, std::uint64_t value) {
        key(field, 0);
        varint(value);
        return *this;
    }
    /// int32 and int64: negative values take ten bytes.
    ProtoMessage& integer(std::uint32_t field, std::int64_t value) {
        return number(field, static_cast<std::uint64_t>(value));
    }
    ProtoMessage& fixed64(std::uint32_t field, std::uint64_t value) {
        key(field, 1);
        for (int i = 0; i < 8; ++i) m_bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
        return *this;
    }
    ProtoMessage& real(std::uint32_t field, double value) {
        return fixed64(field, std::bit_cast<std::uint64_t>(value));
    }
    ProtoMessage& text(std::uint32_t field, std::string_view value) {
        key(field, 2);
        varint(value.size());
        m_bytes.append(value);
        return *this;
    }
    ProtoMessage& message(std::uint32_t field, const ProtoMessage& value) {
        return text(field, value.m_bytes);
    }

    [[nodiscard]] const std::string& bytes() const { return m_bytes; }
    [[nodiscard]] bool empty() const { return m_bytes.empty(); }
    void clear() { m_bytes.clear(); }

private:
    void key(std::uint32_t field, std::uint32_t wire) { varint(field << 3 | wire); }
    void varint(std::uint64_t value) {
        for (; value >= 0x80; value >>= 7) m_bytes.push_back(static_cast<char>(value | 0x80));
        m_bytes.push_back(static_cast<char>(value));
    }

    std::string m_bytes;
};

}  // namespace piper
