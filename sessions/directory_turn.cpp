// SPDX-License-Identifier: Apache-2.0
#include "sessions/directory_turn.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

namespace piper {
namespace {

/// Whoever had the turn before may have removed the directory, or made a new one in its place.
bool isStill(const std::filesystem::path& directory, int descriptor) {
    struct stat held {
    }, there{};
    return ::fstat(descriptor, &held) == 0 && ::stat(directory.c_str(), &there) == 0 &&
           held.st_dev == there.st_dev && held.st_ino == there.st_ino;
}

}  // namespace

Result<DirectoryTurn> DirectoryTurn::take(const std::filesystem::path& directory,
                                          const std::stop_token& stop) {
    const std::filesystem::path place = directory.empty() ? "." : directory;
    int tries = 0;
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
        if (stop.stop_requested()) return fail(ErrorCode::Cancelled, "storing was stopped");
        std::error_code fault;
        std::filesystem::create_directories(place, fault);
        // Whoever ends removes the directory above as well, once it is empty.
        if (fault == std::errc::no_such_file_or_directory && ++tries < 50) continue;
        if (fault)
            return fail(ErrorCode::Io, "cannot make the directory: {}", fault.message())
                .at(place.string());
        Descriptor held(::open(place.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (held.get() < 0 && errno == ENOENT) continue;
        if (held.get() < 0)
            return fail(ErrorCode::Io, "cannot open the directory: {}", std::strerror(errno))
                .at(place.string());
        const bool taken = ::flock(held.get(), LOCK_EX | LOCK_NB) == 0;
        if (!taken && (errno == EWOULDBLOCK || errno == EINTR)) continue;
        if (!taken || isStill(place, held.get())) return DirectoryTurn(held.release());
    }
}

}  // namespace piper
