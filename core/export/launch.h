// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/plan/plan.h"

// How the ranks of a plan are started; not for other folders.
namespace piper {

struct LaunchShape {
    std::int64_t nodes = 1;
    std::int64_t ranks_per_node = 1;
    [[nodiscard]] std::int64_t world() const { return nodes * ranks_per_node; }
};

/// The fewest nodes of the cluster that hold the world with equally many ranks on each.
[[nodiscard]] LaunchShape launchShape(const Plan& plan);

/// Sets dp of the plan from the world. Errors: InvalidInput when tp x cp x pp does not divide it.
[[nodiscard]] Status setWorld(Plan& plan, std::int64_t world);

/// Variables the framework and the fabric need.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> launchEnvironment(
    const Plan& plan, Framework framework);

/// "Mixtral-8x7B-v0.1 on 64 ranks: tp 1 cp 1 pp 4 ep 8 etp 1 dp 16", one line.
[[nodiscard]] std::string planTitle(const Plan& plan);

}  // namespace piper
