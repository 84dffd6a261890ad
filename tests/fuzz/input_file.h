// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace piper::fuzz {

/// Input for parsers that take a file: one name for the life of the process.
inline const std::filesystem::path& inputFile(const std::uint8_t* data, std::size_t size) {
    static const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("piper-fuzz-" + std::to_string(getpid()));
    static const bool registered = std::atexit([] {
                                       std::error_code ignored;
                                       std::filesystem::remove(path, ignored);
                                   }) == 0;
    (void)registered;
    // A new file each time: file systems write one that was cut short to the disk at once.
    unlink(path.c_str());
    const int file = open(path.c_str(), O_CREAT | O_EXCL | O_WRONLY, 0600);
    for (std::size_t done = 0; file >= 0 && done < size;) {
        const ssize_t some = write(file, data + done, size - done);
        if (some <= 0) std::abort();
        done += static_cast<std::size_t>(some);
    }
    if (file < 0 || close(file) != 0) std::abort();
    return path;
}

}  // namespace piper::fuzz
