// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/arenas.h"

#include <malloc.h>

namespace piper::app {

void limitArenas() {
    constexpr int kArenas = 2;
    ::mallopt(M_ARENA_MAX, kArenas);
    // Left to itself the allocator takes blocks of up to 32 MiB from its heap once it saw some of
    // them freed, and keeps twice as much of it: what a search or a report let go of then lies in
    // holes between what stays, or on top.
    constexpr int kOwnPages = 8 << 20, kKeptOnTop = 8 << 20;  ///< bytes
    ::mallopt(M_MMAP_THRESHOLD, kOwnPages);
    ::mallopt(M_TRIM_THRESHOLD, kKeptOnTop);
}

}  // namespace piper::app
