// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <stop_token>
#include <string>

#include "core/base/result.h"
#include "sessions/connection.h"

namespace piper {

struct Deployment {
    std::string worker;  ///< path on the host
    bool sent = false;   ///< false: this very version was there already
};

/// Puts the worker (and its CUDA plugin, when there is one beside it) into
/// DIRECTORY/worker/HASH/, private, once for each version; whole or not at all. Then starts it
/// once to see that it runs there; a file of another SHA-256 is never started.
/// Errors: External when it does not run on the host, naming the missing libraries, or when the
/// host's SHA-256 of what was sent is another one, naming both.
[[nodiscard]] Result<Deployment> deployWorker(Connection& connection, const std::string& directory,
                                              const std::filesystem::path& worker,
                                              const TransferProgress& progress,
                                              const std::stop_token& stop = {});

/// Checks a worker that the user put there himself.
Status checkWorker(Connection& connection, const std::string& worker);

/// Takes away every version that was sent.
Status removeWorkers(Connection& connection, const std::string& directory);

}  // namespace piper
