// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/base/index.h"
#include "core/base/result.h"
#include "kernels/ops/tensor.h"

namespace piper {

/// Decides in the router's place which experts tokens take.
class ExpertSource {
public:
    virtual ~ExpertSource() = default;
    bool operator==(const ExpertSource&) const = default;
    /// experts [positions * topk] of one sample of the global batch, from first_position on.
    [[nodiscard]] virtual Status choose(std::int64_t step, LayerId layer, std::int64_t sample,
                                        Indices experts, std::int64_t first_position) const = 0;
};

}  // namespace piper
