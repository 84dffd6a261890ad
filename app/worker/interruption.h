// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

#include "core/base/result.h"
#include "kernels/pipeline/liveness.h"

namespace piper {

/// Answers the question asked between operations and in every wait: must this rank stop? Because of
/// a signal, or because another rank is no more. The answer stays once given.
class Interruption {
public:
    /// Without a liveness only signals count.
    void watch(Liveness* liveness) { m_liveness = liveness; }
    [[nodiscard]] std::optional<Error> operator()();
    [[nodiscard]] bool given() const { return m_answer.has_value(); }

private:
    [[nodiscard]] std::optional<Error> lost() const;

    Liveness* m_liveness = nullptr;
    std::chrono::steady_clock::time_point m_next_look;
    std::optional<Error> m_answer;
};

}  // namespace piper
