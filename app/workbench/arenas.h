// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

namespace piper::app {

/// Before any thread: each search and each host has a thread of its own, and with an arena of the
/// allocator for each, what they let go of would stay with the process; so would large blocks that
/// are cut from a heap.
void limitArenas();

}  // namespace piper::app
