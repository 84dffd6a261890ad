// SPDX-License-Identifier: Apache-2.0
// What is timed: grouped products by tokens per expert against cuBLAS, rows against a copy.
#include <algorithm>
#include <cstdio>

#include "kernels/cuda/check/grouped_data.h"
#include "kernels/cuda/check/ranks.h"
#include "kernels/cuda/check/timing.h"

namespace piper::cuda {
namespace {

// A mixture with fine-grained experts: gate and up of 64 experts of width 1408, hidden 2048.
constexpr std::int64_t kHidden = 2048;
constexpr std::int64_t kWidth = 2816;
constexpr std::int64_t kExperts = 64;
constexpr std::int64_t kMostRows = 65536;

/// Product of one weight with all rows at once: the same floating point operations in one GEMM.
class Dense {
public:
    Dense(const Device& device, std::int64_t m, std::int64_t n, std::int64_t k)
        : m_device(device),
          m_a(device, randomBf16(m * k, 21)),
          m_b(device, randomBf16(n * k, 22)),
          m_c(device, m * n * 2),
          m_gemm{m, n, k, 0, 1, PIPER_CUDA_BF16, 1.0F, 0.0F, m_a.as<>(), m_b.as<>(), m_c.as<>()} {}
    void queue() const {
        m_device.require(m_device.api().gemm(m_device.context(), &m_gemm), "gemm");
    }
    [[nodiscard]] double flops() const {
        return 2.0 * double(m_gemm.m) * double(m_gemm.n) * double(m_gemm.k);
    }

private:
    const Device& m_device;
    DeviceMemory m_a, m_b, m_c;
    PiperCudaGemm m_gemm;
};

/// Runs a variant once and compares it; false, with a line, when it is refused.
bool checkVariant(const GroupedData& data, const Variant& variant) {
    data.poison();
    try {
        variant.queue();
    } catch (const DeviceError& error) {
        std::printf("  %-22s refused: %s\n", variant.name.c_str(), error.what());
        return false;
    }
    const Correctness result = data.compare(64);
    if (!result.passed()) throw DeviceError(variant.name + " differs from the host; not timed");
    return true;
}

void timeGrouped(const Device& device, int kind, std::int64_t tokens, bool without_hopper) {
    const std::int64_t experts = std::min(kExperts, kMostRows / tokens);
    const GroupedData data(device, kind,
                           std::vector<std::int64_t>(static_cast<std::size_t>(experts), tokens),
                           kHidden, kWidth);
    const PiperCudaApi& api = device.api();
    std::vector<Variant> wanted;
    for (const int path : pathsOf(device)) {
        if (path == PIPER_CUDA_HOPPER && without_hopper) continue;
        wanted.push_back({"ours, " + pathName(path),
                          [&, product = data.product(path)] {
                              device.require(api.groupedGemm(device.context(), &product),
                                             "groupedGemm");
                          },
                          data.flops()});
    }
    const auto baseline = [&](const char* name, int which) {
        wanted.push_back({name,
                          [&, which, product = data.product(PIPER_CUDA_AUTOMATIC)] {
                              device.require(api.groupedBaseline(device.context(), which, &product,
                                                                 data.offsets().data()),
                                             "baseline");
                          },
                          data.flops()});
    };
    baseline("cublasLt loop", PIPER_CUDA_BASELINE_LOOP);
    if (kind != PIPER_CUDA_WEIGHT_GRAD) baseline("cublas grouped", PIPER_CUDA_BASELINE_GROUPED);
    std::vector<Variant> variants;
    for (const Variant& variant : wanted) {
        if (checkVariant(data, variant)) variants.push_back(variant);
    }
    const Dense dense(device, experts * tokens, kWidth, kHidden);
    variants.push_back({"cublas dense", [&] { dense.queue(); }, dense.flops()});
    const std::string name = "grouped " + kindName(kind) + ", " + std::to_string(tokens) +
                             " tokens x " + std::to_string(experts) + " experts, " +
                             std::to_string(kHidden) + " x " + std::to_string(kWidth);
    printComparison(name, compareVariants(device, variants), true);
}

void timePeak(const Device& device) {
    const Dense large(device, 8192, 8192, 8192);
    printComparison("peak: gemm bf16 8192 cubed",
                    compareVariants(device, {{"cublas", [&] { large.queue(); }, large.flops()}}),
                    true);
}

/// A copy of as many bytes as a kernel moves, beside it.
class Copy {
public:
    Copy(const Device& device, double moved)
        : m_device(device),
          m_bytes(static_cast<std::int64_t>(moved / 2) / 16 * 16),
          m_from(device, randomBf16(m_bytes / 2, 23)),
          m_to(device, m_bytes) {}
    [[nodiscard]] Variant variant() const {
        return {"copy",
                [this] {
                    m_device.require(m_device.api().copyOnDevice(m_device.context(), m_from.as<>(),
                                                                 m_to.as<>(), m_bytes),
                                     "copy");
                },
                2.0 * double(m_bytes)};
    }

private:
    const Device& m_device;
    std::int64_t m_bytes;
    DeviceMemory m_from, m_to;
};

void timeRows(const Device& device, const std::string& name, double moved,
              const std::function<int()>& call) {
    const Copy copy(device, moved);
    printComparison(
        name,
        compareVariants(device,
                        {{"ours", [&] { device.require(call(), "call"); }, moved}, copy.variant()}),
        false);
}

void timePermuteAndCombine(const Device& device) {
    constexpr std::int64_t kTokens = 8192;
    constexpr std::int64_t kTopk = 8;
    const auto order = randomOrder(kTokens * kTopk, 24);
    const DeviceMemory tokens(device, randomBf16(kTokens * kHidden, 25));
    const DeviceMemory rows(device, randomBf16(kTokens * kTopk * kHidden, 26));
    const DeviceMemory drows(device, kTokens * kTopk * kHidden * 2);
    const DeviceMemory slots(device, order);
    const DeviceMemory weights(device, randomFloats(kTokens * kTopk, 27));
    const DeviceMemory dweights(device, kTokens * kTopk * 4);
    const PiperCudaApi& api = device.api();
    const double token_bytes = double(kTokens * kHidden * 2);
    timeRows(device, "permute bf16, 8192 tokens top-8 hidden 2048", token_bytes * (1 + kTopk), [&] {
        return api.permuteForward(device.context(), PIPER_CUDA_BF16, tokens.as<>(),
                                  slots.as<std::int32_t>(), rows.as<>(), kTokens * kTopk, kTopk,
                                  kHidden);
    });
    const PiperCudaCombine combine{PIPER_CUDA_BF16,
                                   0,
                                   kTokens,
                                   kTopk,
                                   kHidden,
                                   rows.as<>(),
                                   slots.as<std::int32_t>(),
                                   weights.as<float>(),
                                   tokens.as<>()};
    timeRows(device, "combine bf16, the same", token_bytes * (1 + kTopk),
             [&] { return api.combineForward(device.context(), &combine); });
    const PiperCudaCombineGrad gradient{PIPER_CUDA_BF16,
                                        kTokens,
                                        kTopk,
                                        kHidden,
                                        tokens.as<>(),
                                        rows.as<>(),
                                        slots.as<std::int32_t>(),
                                        weights.as<float>(),
                                        drows.as<>(),
                                        dweights.as<float>()};
    timeRows(device, "combine gradient bf16, the same", token_bytes * (1 + 2 * kTopk),
             [&] { return api.combineInputGrad(device.context(), &gradient); });
}

void timeSwiglu(const Device& device) {
    constexpr std::int64_t kRows = 65536;
    constexpr std::int64_t kFfn = 1408;
    const DeviceMemory gate_up(device, randomBf16(kRows * 2 * kFfn, 28));
    const DeviceMemory out(device, randomBf16(kRows * kFfn, 29));
    const DeviceMemory dgate_up(device, kRows * 2 * kFfn * 2);
    const PiperCudaApi& api = device.api();
    timeRows(device, "swiglu bf16 65536 x 1408", double(kRows * kFfn * 2 * 3), [&] {
        return api.swigluForward(device.context(), PIPER_CUDA_BF16, gate_up.as<>(), out.as<>(),
                                 kRows, kFfn);
    });
    timeRows(device, "swiglu gradient bf16, the same", double(kRows * kFfn * 2 * 5), [&] {
        return api.swigluInputGrad(device.context(), PIPER_CUDA_BF16, out.as<>(), gate_up.as<>(),
                                   dgate_up.as<>(), kRows, kFfn);
    });
}

void timeCrossEntropy(const Device& device) {
    constexpr std::int64_t kRows = 4096;
    constexpr std::int64_t kVocab = 129280;
    const DeviceMemory logits(device, randomBf16(kRows * kVocab, 30));
    const DeviceMemory targets(device, randomExperts(kRows, kVocab, 31));
    const DeviceMemory lse(device, kRows * 4);
    const DeviceMemory bad(device, 4);
    PiperCudaCrossEntropy call{PIPER_CUDA_BF16,
                               1,
                               0,
                               kRows,
                               kVocab,
                               1.0F,
                               logits.as<>(),
                               targets.as<std::int32_t>(),
                               lse.as<float>(),
                               nullptr,
                               bad.as<std::int32_t>()};
    const double bytes = double(kRows * kVocab * 2);
    const PiperCudaApi& api = device.api();
    timeRows(device, "cross-entropy bf16, 4096 rows of 129280, loss", bytes,
             [&] { return api.crossEntropy(device.context(), &call); });
    call.gradient = 1;
    timeRows(device, "cross-entropy, loss and gradient (bytes of two reads, a write)", bytes * 3,
             [&] { return api.crossEntropy(device.context(), &call); });
}

void timeRouter(const Device& device) {
    constexpr std::int64_t kTokens = 8192;
    constexpr std::int64_t kRouted = 256;
    constexpr std::int64_t kTopk = 8;
    const DeviceMemory logits(device, randomFloats(kTokens * kRouted, 32));
    const DeviceMemory scores(device, kTokens * kRouted * 4);
    const DeviceMemory experts(device, kTokens * kTopk * 4);
    const DeviceMemory weights(device, kTokens * kTopk * 4);
    const DeviceMemory slot_of_row(device, kTokens * kTopk * 4);
    const DeviceMemory row_of_slot(device, kTokens * kTopk * 4);
    const DeviceMemory offsets(device, (kRouted + 1) * 8);
    const DeviceMemory scratch(device, PIPER_CUDA_PERMUTATION_CHUNKS * kRouted * 4);
    const DeviceMemory bad(device, 4);
    PiperCudaRouter router{};
    router.tokens = kTokens;
    router.num_experts = kRouted;
    router.router_topk = kTopk;
    router.num_groups = 8;
    router.topk_groups = 4;
    router.sigmoid = 1;
    router.normalize = 1;
    router.scale = 2.5F;
    router.logits = logits.as<float>();
    router.scores = scores.as<float>();
    router.experts = experts.as<std::int32_t>();
    router.weights = weights.as<float>();
    router.bad_row = bad.as<std::int32_t>();
    const PiperCudaApi& api = device.api();
    timeRows(device, "router sigmoid top-8 of 256 in 8 groups, 8192 tokens",
             double(kTokens * kRouted * 8),
             [&] { return api.routerForward(device.context(), &router); });
    const PiperCudaPermutation permutation{kTokens * kTopk,
                                           kRouted,
                                           experts.as<std::int32_t>(),
                                           offsets.as<std::int64_t>(),
                                           slot_of_row.as<std::int32_t>(),
                                           row_of_slot.as<std::int32_t>(),
                                           bad.as<std::int32_t>(),
                                           scratch.as<std::int32_t>()};
    timeRows(device, "permutation of its 65536 slots", double(kTokens * kTopk * 16),
             [&] { return api.makePermutation(device.context(), &permutation); });
}

void timeHostCopy(const Device& device) {
    constexpr std::int64_t kBytes = std::int64_t{1} << 28U;
    const auto host = randomBf16(kBytes / 2, 33);
    const DeviceMemory to(device, kBytes);
    const Variant copy{"pageable",
                       [&] {
                           device.require(device.api().copyToDevice(device.context(), host.data(),
                                                                    to.as<>(), kBytes),
                                          "copyToDevice");
                       },
                       double(kBytes)};
    printComparison("copy to the device, 256 MiB", compareVariants(device, {copy}, 7), false);
}

}  // namespace

std::vector<TimingCase> timingCases(bool without_hopper) {
    std::vector<TimingCase> cases{{"peak", timePeak, {"gemm"}}};
    for (const std::int64_t tokens : {4, 16, 64, 256, 1024, 4096}) {
        cases.push_back({"grouped forward " + std::to_string(tokens),
                         [tokens, without_hopper](const Device& d) {
                             timeGrouped(d, PIPER_CUDA_FORWARD, tokens, without_hopper);
                         },
                         {"grouped portable forward"}});
    }
    for (const int kind : {PIPER_CUDA_INPUT_GRAD, PIPER_CUDA_WEIGHT_GRAD}) {
        for (const std::int64_t tokens : {16, 64, 1024}) {
            cases.push_back({"grouped " + kindName(kind) + " " + std::to_string(tokens),
                             [kind, tokens, without_hopper](const Device& d) {
                                 timeGrouped(d, kind, tokens, without_hopper);
                             },
                             {"grouped portable " + kindName(kind)}});
        }
    }
    cases.push_back({"permute and combine", timePermuteAndCombine, {"permute", "combine"}});
    cases.push_back({"swiglu", timeSwiglu, {"swiglu"}});
    cases.push_back({"cross-entropy", timeCrossEntropy, {"cross-entropy"}});
    cases.push_back({"router", timeRouter, {"router", "permutation"}});
    cases.push_back({"host copy", timeHostCopy});
    addRankTimings(cases);
    return cases;
}

}  // namespace piper::cuda
