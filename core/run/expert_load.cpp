// SPDX-License-Identifier: Apache-2.0
#include "core/run/expert_load.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/result.h"

namespace piper {
namespace {

using Tokens = std::vector<std::int64_t>;

void addTo(Tokens& sum, const Tokens& tokens) {
    sum.resize(std::max(sum.size(), tokens.size()));
    std::ranges::transform(tokens, sum, sum.begin(), std::plus<>());
}

}  // namespace

double hottestOverMean(std::span<const std::int64_t> tokens) {
    const std::int64_t all = std::accumulate(tokens.begin(), tokens.end(), std::int64_t{0});
    if (all <= 0) return 1.0;
    return static_cast<double>(std::ranges::max(tokens)) * static_cast<double>(tokens.size()) /
           static_cast<double>(all);
}

double ExpertLoadSummary::hottestOverMean() const {
    return piper::hottestOverMean(tokens);
}

const LayerLoad* ExpertLoadSummary::worstLayer() const {
    const auto worst = std::ranges::max_element(layers, {}, &LayerLoad::hottest_over_mean);
    return worst == layers.end() ? nullptr : &*worst;
}

ExpertLoadSummary summarizeLoad(std::span<const ExpertLoad> loads) {
    std::map<LayerId, Tokens> layers;
    for (const ExpertLoad& load : loads) addTo(layers[load.layer], load.tokens);
    ExpertLoadSummary out;
    for (const auto& [layer, tokens] : layers) {
        addTo(out.tokens, tokens);
        if (std::ranges::any_of(tokens, [](std::int64_t t) { return t > 0; }))
            out.layers.push_back({layer, hottestOverMean(tokens)});
    }
    return out;
}

ExpertLoadSummary lastStepLoad(const Run& run) {
    std::int32_t last = -1;
    for (const RankTimeline& rank : run.ranks)
        for (const ExpertLoad& load : rank.expert_load) last = std::max(last, load.step);
    std::vector<ExpertLoad> loads;
    for (const RankTimeline& rank : run.ranks)
        std::ranges::copy_if(rank.expert_load, std::back_inserter(loads),
                             [&](const ExpertLoad& load) { return load.step == last; });
    return summarizeLoad(loads);
}

std::string describe(const ExpertLoadSummary& load) {
    if (load.empty()) return {};
    std::string out = fmt::format("hottest expert {:.2f} times the mean", load.hottestOverMean());
    if (const LayerLoad* worst = load.worstLayer(); worst != nullptr && load.layers.size() > 1)
        out +=
            fmt::format(", in layer {} {:.2f} times", worst->layer.value, worst->hottest_over_mean);
    return out;
}

}  // namespace piper
