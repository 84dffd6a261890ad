// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

#include "core/base/result.h"

namespace piper {

/// The bytes of a file, gzip-compressed (told by its first bytes, several members) or plain.
class ByteSource {
public:
    /// Errors: NotFound, Io, InvalidInput for a directory, a pipe or a device.
    [[nodiscard]] static Result<ByteSource> open(const std::filesystem::path& path);
    ByteSource(ByteSource&&) noexcept;
    ByteSource& operator=(ByteSource&&) noexcept;
    ~ByteSource();

    /// Up to `size` bytes; 0 at the end of what can be read. A byte order mark of UTF-8 at the
    /// begin is passed over.
    std::size_t read(char* to, std::size_t size);
    /// Why reading ended before the end of the file: a truncated or damaged gzip stream, a fault of
    /// the disk; empty otherwise.
    [[nodiscard]] const std::string& fault() const;

private:
    struct Impl;
    explicit ByteSource(std::unique_ptr<Impl> impl);
    std::unique_ptr<Impl> m_impl;
};

/// The unread part of a source in one piece of memory; it holds more than one block only while one
/// value is longer than that, and never more than kLongestValue.
class ByteWindow {
public:
    explicit ByteWindow(ByteSource& source, std::size_t block = std::size_t{1} << 20);
    [[nodiscard]] const char* begin() const { return m_data.get() + m_begin; }
    [[nodiscard]] const char* end() const { return m_data.get() + m_end; }
    /// True when nothing follows end().
    [[nodiscard]] bool atEnd() const { return m_at_end; }
    /// Bytes of the source before begin().
    [[nodiscard]] std::int64_t position() const { return m_position; }
    /// True when the unread part is as long as one value may be: skip of it before reading on.
    [[nodiscard]] bool full() const { return m_end - m_begin >= kLongestValue; }
    void consumeTo(const char* place);
    /// Reads more behind end(); pointers into the window become invalid.
    void refill();

    /// Bytes behind end() that may be read (and mean nothing), for wide loads.
    static constexpr std::size_t kSlack = 64;
    static constexpr std::size_t kLongestValue = std::size_t{64} << 20;

private:
    ByteSource& m_source;
    std::unique_ptr<char[]> m_data;
    std::size_t m_capacity, m_begin = 0, m_end = 0;
    std::int64_t m_position = 0;
    bool m_at_end = false;
};

}  // namespace piper
