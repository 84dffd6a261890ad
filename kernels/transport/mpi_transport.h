// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "kernels/transport/transport.h"

namespace piper {

struct MpiOptions {
    /// Sums in rank order, the same on every rank and in every run.
    bool deterministic = false;
    /// Asked in every wait; an error ends the wait with it (a signal came, a rank is gone).
    std::function<std::optional<Error>()> interrupted;
};

/// MPI is initialised in this process and not finalised.
[[nodiscard]] bool mpiRuns();

/// Starts MPI in this process; where it runs already it is used, and not ended. Every call is
/// non-blocking underneath and waits by testing, with a yield and then short sleeps between tests,
/// so that ranks may outnumber the cores. Errors: External when MPI cannot start; InvalidInput for
/// a bad PIPER_NODE.
[[nodiscard]] Result<std::unique_ptr<Transport>> makeMpiTransport(MpiOptions options);

}  // namespace piper
