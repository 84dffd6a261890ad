// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>

namespace piper {

inline constexpr std::uintptr_t kSmallPage = 4096, kLargePage = 2 << 20;  ///< bytes

/// Says that memory will be written from its begin on. Fetching some thousand pages one by one
/// takes longer than filling them: small ones up to the first large one come at once, large ones
/// behind as they are reached. Advice alone.
inline void expectWriting(void* place, std::size_t bytes) {
    const auto upTo = [](std::uintptr_t at, std::uintptr_t page) {
        return (at + page - 1) / page * page;
    };
    const auto begin = reinterpret_cast<std::uintptr_t>(place), end = begin + bytes;
    const std::uintptr_t small = upTo(begin, kSmallPage), large = upTo(begin, kLargePage);
    if (end < large + kLargePage) return;
    (void)madvise(reinterpret_cast<void*>(small), large - small, MADV_POPULATE_WRITE);
    (void)madvise(reinterpret_cast<void*>(large), (end - large) / kLargePage * kLargePage,
                  MADV_HUGEPAGE);
}

}  // namespace piper
