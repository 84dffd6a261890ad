// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda/check/timing.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace piper::cuda {
namespace {

constexpr double kStretchSeconds = 2e-3;
constexpr int kMostCalls = 50;

double timed(const Device& device, const Variant& variant, int calls) {
    const PiperCudaApi& api = device.api();
    device.require(api.startTimer(device.context()), "startTimer");
    for (int call = 0; call < calls; ++call) variant.queue();
    double seconds = 0;
    device.require(api.stopTimer(device.context(), &seconds), "stopTimer");
    return seconds / calls;
}

}  // namespace

Spread spreadOf(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const auto at = [&](double part) {
        return values[static_cast<std::size_t>(std::lround(part * double(values.size() - 1)))];
    };
    return {at(0.5), at(0.1), at(0.9)};
}

Comparison compareVariants(const Device& device, const std::vector<Variant>& variants, int rounds) {
    std::vector<int> calls;
    for (const Variant& variant : variants) {
        (void)timed(device, variant, 1);
        const double seconds = std::max(timed(device, variant, 1), 1e-7);
        calls.push_back(std::clamp(static_cast<int>(kStretchSeconds / seconds), 1, kMostCalls));
    }
    std::vector<std::vector<double>> seconds(variants.size());
    std::vector<std::vector<double>> ratios(variants.size());
    std::vector<double> noise;
    for (int round = 0; round < rounds; ++round) {
        for (std::size_t v = 0; v < variants.size(); ++v) {
            seconds[v].push_back(timed(device, variants[v], calls[v]));
            ratios[v].push_back(seconds[v].back() / seconds[0].back());
        }
        noise.push_back(timed(device, variants[0], calls[0]) / seconds[0].back());
    }
    Comparison comparison{{}, spreadOf(noise), rounds, calls[0]};
    for (std::size_t v = 0; v < variants.size(); ++v) {
        comparison.variants.push_back(
            {variants[v].name, variants[v].work, spreadOf(seconds[v]), spreadOf(ratios[v])});
    }
    return comparison;
}

void printComparison(const std::string& name, const Comparison& comparison, bool flops) {
    std::printf("%s  (n %d, %d calls each)\n", name.c_str(), comparison.rounds, comparison.calls);
    for (const Measured& m : comparison.variants) {
        std::printf("  %-22s %10.1f us  +-%4.1f %%  %8.1f %s  x%.2f (%.2f..%.2f)\n", m.name.c_str(),
                    m.seconds.median * 1e6,
                    50.0 * (m.seconds.p90 - m.seconds.p10) / m.seconds.median,
                    m.work / m.seconds.median * (flops ? 1e-12 : 1e-9), flops ? "TFLOP/s" : "GB/s",
                    m.ratio.median, m.ratio.p10, m.ratio.p90);
    }
    std::printf("  noise (first again)    x%.2f (%.2f..%.2f)\n", comparison.noise.median,
                comparison.noise.p10, comparison.noise.p90);
}

}  // namespace piper::cuda
