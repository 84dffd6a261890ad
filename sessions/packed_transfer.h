// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"
#include "sessions/ssh_link.h"

namespace piper {

/// What packing (gzip -1) does with a file of a host, found out on pieces of it.
struct PackingSample {
    double ratio = 1.0;     ///< packed bytes over bytes
    BytesPerSecond packed;  ///< of the file, by one core of the host
};

/// Packing beats sending the file as it is over a link of that rate: both packing and the smaller
/// rest of it on the link are clearly quicker.
[[nodiscard]] bool packingPays(const PackingSample& sample, BytesPerSecond link);

/// Packs 768 KiB from all over the part of the file behind `begin`. Nothing when the host cannot.
[[nodiscard]] std::optional<PackingSample> samplePacking(const std::shared_ptr<SshLink>& link,
                                                         const std::string& path,
                                                         std::int64_t begin, std::int64_t end,
                                                         const std::stop_token& stop);

/// Bytes from `begin` to `end` of the file, packed on the way; `sink` gets them as they are there,
/// and never more than asked for.
/// Errors: External when what comes is not what was packed, or less; those of the connection.
Status fetchPacked(const std::shared_ptr<SshLink>& link, const std::string& path,
                   std::int64_t begin, std::int64_t end,
                   const std::function<Status(std::string_view)>& sink,
                   const std::stop_token& stop);

}  // namespace piper
