// SPDX-License-Identifier: Apache-2.0
#include "kernels/transport/node_map.h"

#include <algorithm>
#include <charconv>
#include <map>

namespace piper {
namespace {

std::int64_t parseNumber(std::string_view text) {
    std::int64_t value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc() && end == text.data() + text.size() ? value : -1;
}

std::int64_t number(const Environment& environment, const char* name) {
    const char* text = environment(name);
    return text == nullptr ? -1 : parseNumber(text);
}

Result<NodeHint> pretendedNode(std::int64_t rank, std::string_view text) {
    std::vector<std::int64_t> entries;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        entries.push_back(parseNumber(text.substr(begin, end - begin)));
        begin = end + 1;
    }
    const std::size_t wanted = entries.size() == 1 ? 0 : static_cast<std::size_t>(rank);
    if (wanted >= entries.size() || entries[wanted] < 0) {
        Error error =
            fail(ErrorCode::InvalidInput, "PIPER_NODE '{}' gives rank {} no node", text, rank);
        error.hint = "give one node number, or one per rank: PIPER_NODE=0,0,1,1";
        return error;
    }
    NodeHint hint;
    hint.label = fmt::format("piper:{}", entries[wanted]);
    return hint;
}

bool localSizesAgree(const std::vector<NodeHint>& hints) {
    std::map<std::string, std::int64_t> members;
    for (const NodeHint& hint : hints) ++members[hint.label];
    return std::all_of(hints.begin(), hints.end(), [&](const NodeHint& hint) {
        return hint.local_size < 0 || members[hint.label] == hint.local_size;
    });
}

}  // namespace

Result<NodeHint> readNodeHint(std::int64_t rank, std::string_view host,
                              const Environment& environment) {
    if (const char* pretended = environment("PIPER_NODE")) return pretendedNode(rank, pretended);
    NodeHint hint;
    const std::int64_t slurm_node = number(environment, "SLURM_NODEID");
    if (slurm_node >= 0) {
        hint.label = fmt::format("slurm:{}", slurm_node);
        return hint;
    }
    hint.label = fmt::format("host:{}", host);
    hint.local_rank = number(environment, "OMPI_COMM_WORLD_LOCAL_RANK");
    hint.local_size = number(environment, "OMPI_COMM_WORLD_LOCAL_SIZE");
    return hint;
}

std::vector<std::int64_t> nodeIndices(const std::vector<NodeHint>& hints) {
    std::vector<std::int64_t> nodes;
    if (!localSizesAgree(hints)) {
        std::int64_t node = -1;
        for (const NodeHint& hint : hints) {
            if (hint.local_rank <= 0) ++node;
            nodes.push_back(std::max<std::int64_t>(node, 0));
        }
        return nodes;
    }
    std::map<std::string, std::int64_t> index;
    for (const NodeHint& hint : hints)
        nodes.push_back(
            index.emplace(hint.label, static_cast<std::int64_t>(index.size())).first->second);
    return nodes;
}

bool launchedByMpi(const Environment& environment) {
    return environment("OMPI_COMM_WORLD_SIZE") != nullptr || environment("PMI_RANK") != nullptr ||
           environment("PMIX_RANK") != nullptr;
}

}  // namespace piper
