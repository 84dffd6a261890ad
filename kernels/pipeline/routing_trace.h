// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/base/index.h"
#include "core/base/result.h"
#include "kernels/ops/tensor.h"
#include "kernels/pipeline/expert_source.h"

namespace piper {

/// Which experts every token chose, by step, layer and global sample, so that another layout can be
/// made to choose the same. The experts' weights are not in it: they follow from the scores.
///
/// File: the line "piper-routing 1 TOPK SEQ_LEN\n", then records of little-endian int32 step, int32
/// layer, int64 sample and seq_len * topk int16 experts, position by position; -1 where another
/// rank's recording has them.
class RoutingTrace final : public ExpertSource {
public:
    RoutingTrace(std::int64_t router_topk, std::int64_t seq_len)
        : m_topk(router_topk), m_seq_len(seq_len) {}

    /// Reads FILE, or FILE.0, FILE.1, ... of a recording on several ranks.
    /// Errors: NotFound; InvalidInput for another top-k or sequence length or a torn record.
    [[nodiscard]] static Result<RoutingTrace> read(const std::string& path,
                                                   std::int64_t router_topk, std::int64_t seq_len);
    [[nodiscard]] Status write(const std::string& path) const;

    /// experts [positions * topk] of one sample, from first_position on.
    void record(std::int64_t step, LayerId layer, std::int64_t sample, ConstIndices experts,
                std::int64_t first_position = 0);
    /// Errors: InvalidInput when the trace has no such record.
    [[nodiscard]] Status choose(std::int64_t step, LayerId layer, std::int64_t sample,
                                Indices experts, std::int64_t first_position) const override;
    [[nodiscard]] std::size_t size() const { return m_records.size(); }
    bool operator==(const RoutingTrace&) const = default;

private:
    using Key = std::tuple<std::int32_t, std::int32_t, std::int64_t>;
    Status readInto(const std::string& path);

    std::int64_t m_topk, m_seq_len;
    std::map<Key, std::vector<std::int16_t>> m_records;
};

}  // namespace piper
