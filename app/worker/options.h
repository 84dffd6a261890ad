// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/result.h"

namespace piper {

struct WorkerOptions {
    std::string plan, job, data = "/usr/share/common-licenses/GPL-3";
    std::int64_t steps = 20;
    std::uint64_t seed = 1;
    bool deterministic = false;
    bool local_rows = false;
    std::string record_routing, replay_routing;
    std::optional<std::int64_t> memory_limit_bytes;
    double learning_rate = 1e-3;
    std::string calibrate;  ///< measure into this cluster file instead of training
    std::string bench;      ///< time the worker itself into this file instead of training
    bool quick = false;
    std::string digest;  ///< write the digest of this job directory instead of training
    std::string backend = "cpu";
    std::int64_t checkpoint_every = 0;
    std::string checkpoint_directory, resume;
};

/// What the command line asks for: options, or an exit status when it printed help or an error.
struct ParsedOptions {
    WorkerOptions options;
    std::optional<int> exit_status;
};
[[nodiscard]] ParsedOptions parseOptions(int argc, char** argv);

}  // namespace piper
