// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/alltoall/exchange_script.h"

namespace piper {

/// Tags of the exchanges over one group, in the order in which they are started; every member
/// counts the same. Two kinds of exchanges over one group keep apart.
class ExchangeTags {
public:
    static constexpr int kRows = 1 << 12, kTokens = kRows + (1 << 13);
    explicit ExchangeTags(int first) : m_first(first) {}
    [[nodiscard]] int next() { return m_first + kMaxPhases * (m_sequence++ % kUnderWay); }

private:
    static constexpr int kUnderWay = 1 << 11;  ///< exchanges at once, far above any plan's
    int m_first;
    int m_sequence = 0;
};

}  // namespace piper
