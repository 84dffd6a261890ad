// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/arenas.h"

#include <malloc.h>

namespace piper::app {

void limitArenas() {
    constexpr int kArenas = 2;
    ::mallopt(M_ARENA_MAX, kArenas);
}

}  // namespace piper::app
