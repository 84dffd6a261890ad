// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "sessions/connection.h"

namespace piper {

TransferProgress everyPercent(std::function<void(std::int64_t percent)> say) {
    return [say = std::move(say), said = std::int64_t{-1}](std::int64_t done,
                                                           std::int64_t total) mutable {
        const std::int64_t percent = total > 0 ? 100 * done / total : 100;
        if (std::exchange(said, percent) != percent) say(percent);
    };
}

}  // namespace piper
