// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/routing_trace.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace piper {
namespace {

constexpr std::int16_t kUnknown = -1;

}  // namespace

void RoutingTrace::record(std::int64_t step, LayerId layer, std::int64_t sample,
                          ConstIndices experts, std::int64_t first_position) {
    std::vector<std::int16_t>& to =
        m_records[{static_cast<std::int32_t>(step), layer.value, sample}];
    to.resize(static_cast<std::size_t>(m_topk * m_seq_len), kUnknown);
    const std::int64_t first = first_position * m_topk;
    PIPER_CHECK(first + std::ssize(experts) <= std::ssize(to));
    std::ranges::transform(experts, to.begin() + first,
                           [](std::int32_t e) { return static_cast<std::int16_t>(e); });
}

Status RoutingTrace::choose(std::int64_t step, LayerId layer, std::int64_t sample, Indices experts,
                            std::int64_t first_position) const {
    const auto found = m_records.find({static_cast<std::int32_t>(step), layer.value, sample});
    const std::int64_t first = first_position * m_topk;
    bool known =
        found != m_records.end() && first + std::ssize(experts) <= std::ssize(found->second);
    for (std::size_t i = 0; known && i < experts.size(); ++i) {
        experts[i] = found->second[static_cast<std::size_t>(first) + i];
        known = experts[i] != kUnknown;
    }
    if (known) return {};
    return fail(ErrorCode::InvalidInput,
                "the routing trace has nothing for step {}, layer {}, sample {}; record it "
                "with the same steps, batch and model",
                step, layer.value, sample);
}

Status RoutingTrace::write(const std::string& path) const {
    std::ofstream out(path, std::ios::binary | std::ios::trunc);
    out << fmt::format("piper-routing 1 {} {}\n", m_topk, m_seq_len);
    for (const auto& [key, experts] : m_records) {
        const auto& [step, layer, sample] = key;
        out.write(reinterpret_cast<const char*>(&step), sizeof step);
        out.write(reinterpret_cast<const char*>(&layer), sizeof layer);
        out.write(reinterpret_cast<const char*>(&sample), sizeof sample);
        out.write(reinterpret_cast<const char*>(experts.data()),
                  static_cast<std::streamsize>(experts.size() * sizeof(std::int16_t)));
    }
    out.flush();
    if (!out) return fail(ErrorCode::Io, "cannot write the routing trace").withContext(path);
    return {};
}

Status RoutingTrace::readInto(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    if (!in) return fail(ErrorCode::NotFound, "cannot read the routing trace {}", path);
    std::string word;
    int version = 0;
    std::int64_t topk = 0, seq_len = 0;
    in >> word >> version >> topk >> seq_len;
    if (!in || in.get() != '\n' || word != "piper-routing" || version != 1)
        return fail(ErrorCode::InvalidInput, "{} is no routing trace of version 1", path);
    if (topk != m_topk || seq_len != m_seq_len)
        return fail(ErrorCode::InvalidInput,
                    "{} was recorded with top-{} and seq_len {}, the plan has top-{} and {}", path,
                    topk, seq_len, m_topk, m_seq_len);
    for (;;) {
        std::int32_t step = 0, layer = 0;
        std::int64_t sample = 0;
        std::vector<std::int16_t> experts(static_cast<std::size_t>(m_topk * m_seq_len));
        in.read(reinterpret_cast<char*>(&step), sizeof step);
        if (in.gcount() == 0) return {};
        in.read(reinterpret_cast<char*>(&layer), sizeof layer);
        in.read(reinterpret_cast<char*>(&sample), sizeof sample);
        in.read(reinterpret_cast<char*>(experts.data()),
                static_cast<std::streamsize>(experts.size() * sizeof(std::int16_t)));
        if (!in)
            return fail(ErrorCode::InvalidInput, "{} ends inside record {}", path,
                        m_records.size());
        std::vector<std::int16_t>& to = m_records[{step, layer, sample}];
        to.resize(experts.size(), kUnknown);
        for (std::size_t i = 0; i < experts.size(); ++i)
            if (experts[i] != kUnknown) to[i] = experts[i];
    }
}

Result<RoutingTrace> RoutingTrace::read(const std::string& path, std::int64_t router_topk,
                                        std::int64_t seq_len) {
    RoutingTrace trace(router_topk, seq_len);
    if (std::filesystem::exists(path) || !std::filesystem::exists(path + ".0")) {
        PIPER_TRY(trace.readInto(path));
        return trace;
    }
    for (int rank = 0; std::filesystem::exists(fmt::format("{}.{}", path, rank)); ++rank)
        PIPER_TRY(trace.readInto(fmt::format("{}.{}", path, rank)));
    return trace;
}

}  // namespace piper
