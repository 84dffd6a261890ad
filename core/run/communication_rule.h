// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "core/base/result.h"

namespace piper {

/// Which kernels are communication, by their names: an expression found anywhere in the name, in
/// any case. NCCL alone is not enough: mixtures of experts talk through kernels of DeepEP, NVSHMEM
/// and others, and a bare "combine" is also part of attention.
class CommunicationRule {
public:
    /// NCCL, RCCL, MSCCL, DeepEP, NVSHMEM, oneCCL and the all-reduces of inference engines.
    static constexpr std::string_view kDefault =
        "nccl|rccl|msccl|deep_ep|nvshmem|oneccl|one_?shot_?all_?reduce|two_?shot_?all_?reduce|"
        "cross_device_reduce|(^|[^a-z])ep::(inter|intra)node";

    /// Errors: InvalidInput quotes an expression that cannot be read.
    [[nodiscard]] static Result<CommunicationRule> parse(std::string_view expression);
    [[nodiscard]] static CommunicationRule standard();
    [[nodiscard]] bool matches(std::string_view name) const;

private:
    struct Compiled;
    std::string m_expression;
    std::shared_ptr<const Compiled> m_compiled;
};

/// The narrow rule of most tools: the name starts with "nccl", in any case.
[[nodiscard]] bool isNcclName(std::string_view name);

}  // namespace piper
