// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/transport/transport.h"

namespace piper::test {

/// The world of this test binary: MPI under mpirun, one local rank otherwise.
[[nodiscard]] Transport& transport();

/// A group of every rank of the world with pretended nodes; null where the world has another size
/// than `nodes` (the caller returns: another ctest entry runs that size).
[[nodiscard]] bool worldHas(std::size_t ranks);

}  // namespace piper::test
