// SPDX-License-Identifier: Apache-2.0
#include "kernels/ops/permutation.h"

#include <algorithm>
#include <vector>

namespace piper {

Status makePermutation(ConstIndices experts, std::int64_t num_experts, Indices slot_of_row,
                       Indices row_of_slot, std::span<std::int64_t> offsets) {
    PIPER_CHECK(slot_of_row.size() == experts.size() && row_of_slot.size() == experts.size());
    PIPER_CHECK(offsets.size() == static_cast<std::size_t>(num_experts) + 1);
    std::fill(offsets.begin(), offsets.end(), 0);
    for (std::size_t slot = 0; slot < experts.size(); ++slot) {
        const std::int32_t expert = experts[slot];
        if (expert < 0 || expert >= num_experts)
            return fail(ErrorCode::InvalidInput, "slot {} is routed to expert {}, outside 0..{}",
                        slot, expert, num_experts - 1);
        ++offsets[static_cast<std::size_t>(expert) + 1];
    }
    for (std::size_t e = 1; e < offsets.size(); ++e) offsets[e] += offsets[e - 1];
    std::vector<std::int64_t> next(offsets.begin(), offsets.end() - 1);
    for (std::size_t slot = 0; slot < experts.size(); ++slot) {
        const std::int64_t row = next[static_cast<std::size_t>(experts[slot])]++;
        row_of_slot[slot] = static_cast<std::int32_t>(row);
        slot_of_row[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(slot);
    }
    return {};
}

Result<std::int64_t> makeCapacityPermutation(ConstIndices experts, std::int64_t num_experts,
                                             std::int64_t capacity, Indices slot_of_row,
                                             Indices row_of_slot) {
    PIPER_CHECK(row_of_slot.size() == experts.size() && capacity >= 0);
    PIPER_CHECK(slot_of_row.size() == static_cast<std::size_t>(num_experts * capacity));
    std::fill(slot_of_row.begin(), slot_of_row.end(), -1);
    std::vector<std::int64_t> taken(static_cast<std::size_t>(num_experts), 0);
    std::int64_t dropped = 0;
    for (std::size_t slot = 0; slot < experts.size(); ++slot) {
        const std::int32_t expert = experts[slot];
        if (expert < 0 || expert >= num_experts)
            return fail(ErrorCode::InvalidInput, "slot {} is routed to expert {}, outside 0..{}",
                        slot, expert, num_experts - 1);
        std::int64_t& rows = taken[static_cast<std::size_t>(expert)];
        if (rows == capacity) {
            row_of_slot[slot] = -1;
            ++dropped;
            continue;
        }
        const std::int64_t row = expert * capacity + rows++;
        row_of_slot[slot] = static_cast<std::int32_t>(row);
        slot_of_row[static_cast<std::size_t>(row)] = static_cast<std::int32_t>(slot);
    }
    return dropped;
}

std::int64_t expertCapacity(std::int64_t slots, std::int64_t num_experts, double capacity_factor) {
    const double rows = static_cast<double>(slots) * capacity_factor;
    // The margin forgives a factor that is not exact in binary: 8 slots at 1.25 are 10, not 11.
    const auto each = static_cast<std::int64_t>(rows / static_cast<double>(num_experts) + 0.999999);
    return std::max<std::int64_t>(1, each);
}

void makeReceiveOrder(std::span<const std::int64_t> counts, std::int64_t local_experts,
                      Indices row_of_sorted, std::span<std::int64_t> offsets) {
    const auto experts = static_cast<std::size_t>(local_experts);
    PIPER_CHECK(experts > 0 && counts.size() % experts == 0 && offsets.size() == experts + 1);
    std::fill(offsets.begin(), offsets.end(), 0);
    std::vector<std::int64_t> first(counts.size());  // received row of each source and expert
    std::int64_t received = 0;
    for (std::size_t i = 0; i < counts.size(); ++i) {
        first[i] = received;
        received += counts[i];
        offsets[i % experts + 1] += counts[i];
    }
    PIPER_CHECK(row_of_sorted.size() == static_cast<std::size_t>(received));
    for (std::size_t e = 1; e <= experts; ++e) offsets[e] += offsets[e - 1];
    std::size_t sorted = 0;
    for (std::size_t e = 0; e < experts; ++e)
        for (std::size_t i = e; i < counts.size(); i += experts)
            for (std::int64_t r = 0; r < counts[i]; ++r)
                row_of_sorted[sorted++] = static_cast<std::int32_t>(first[i] + r);
}

}  // namespace piper
