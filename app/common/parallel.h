// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/search/search.h"

namespace piper::app {

/// A ParallelFor over the processors of this machine; bodies run in chunks of the index range.
[[nodiscard]] ParallelFor threadedFor();

}  // namespace piper::app
