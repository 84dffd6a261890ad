// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "kernels/transport/transport.h"

namespace piper {

/// A world of one rank without any message layer: one-rank runs and tests need no launcher.
[[nodiscard]] std::unique_ptr<Transport> makeLocalTransport();

}  // namespace piper
