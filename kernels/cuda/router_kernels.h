// SPDX-License-Identifier: Apache-2.0
#pragma once

// Bodies of the router's kernels: scores, top-k and weights in one pass over the logits; its
// gradient; and the permutation of slots (slot = token * router_topk + choice) by expert, with the
// tokens of each expert left on the device. A warp takes a token, or a chunk of slots.

#include <cmath>

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/row_kernels.h"

namespace piper::cuda {

constexpr int kMaxExperts = 1024;
constexpr int kMaxTopk = 64;

/// Scoring and selection as RouterShape (kernels/ops/shapes.h) says it. Ties go to the lower
/// expert.
struct RouterArguments {
    const float* logits;                 ///< [tokens, num_experts]
    float* scores;                       ///< [tokens, num_experts]
    std::int32_t* experts;               ///< [tokens, router_topk]; read when `replay`
    float* weights;                      ///< [tokens, router_topk]
    const float* bias;                   ///< [num_experts] or null
    const std::int32_t* node_of_expert;  ///< [num_experts] or null
    std::int32_t* bad_row;               ///< set to a row whose logits are not finite
    std::int64_t tokens;
    int num_experts;
    int router_topk;
    int num_groups, topk_groups;
    int nodes, node_limit;  ///< node_limit 0: no limit
    float scale;            ///< routed_scaling_factor
    bool sigmoid;           ///< else softmax
    bool normalize;         ///< weights are divided by their sum
    bool replay;
};

/// The larger value, of equal ones the lower index.
struct Best {
    float value;
    int index;
};
PIPER_HOST_DEVICE Best better(Best a, Best b) {
    return a.value > b.value || (a.value == b.value && a.index < b.index) ? a : b;
}
template <class Machine>
PIPER_KERNEL_BODY Best warpBest(Machine& machine, Best best) {
    PIPER_UNROLL
    for (int step = 16; step > 0; step /= 2) {
        const Best other{
            floatOfBits(machine.shuffleXor(bitsOf(best.value), step)),
            static_cast<int>(machine.shuffleXor(static_cast<std::uint32_t>(best.index), step))};
        best = better(best, other);
    }
    return best;
}
template <class Machine>
PIPER_KERNEL_BODY float warpMax(Machine& machine, float value) {
    PIPER_UNROLL
    for (int step = 16; step > 0; step /= 2) {
        value = larger(value, floatOfBits(machine.shuffleXor(bitsOf(value), step)));
    }
    return value;
}

/// Takes the best of `count` floats in shared memory at `values` out (it becomes -infinity) and
/// gives its index to all lanes.
template <class Machine>
PIPER_KERNEL_BODY int takeBest(Machine& machine, int values, int count) {
    const int lane = machine.thread() % 32;
    Best best{-INFINITY, kMaxExperts};
    for (int i = lane; i < count; i += 32) {
        best = better(best, {machine.loadFloat(values + i * 4), i});
    }
    best = warpBest(machine, best);
    // All -infinity (a row of NaN): still an index in range.
    const int index = best.index < count ? best.index : 0;
    machine.syncWarp();
    if (lane == 0) machine.storeFloat(values + index * 4, -INFINITY);
    machine.syncWarp();
    return index;
}

/// Bytes of shared memory a warp needs: values of experts, then of groups or nodes.
PIPER_HOST_DEVICE int routerWarpBytes(int num_experts) {
    return num_experts * 8;
}

/// Experts outside the `keep` best of `groups` groups become -infinity. A group's value is the sum
/// of its `best` best experts that no earlier limit excluded. `group_of` maps an expert to its
/// group.
template <class Machine, class GroupOf>
PIPER_KERNEL_BODY void limitGroups(Machine& machine, int values, int num_experts, int groups,
                                   int keep, int best, GroupOf group_of) {
    if (keep >= groups) return;
    const int lane = machine.thread() % 32;
    const int group_values = values + num_experts * 4;
    for (int g = lane; g < groups; g += 32) {
        float sum = 0.0F;
        Best last{INFINITY, -1};
        for (int round = 0; round < best; ++round) {  // the next after `last` in order
            Best next{-INFINITY, kMaxExperts};
            for (int e = 0; e < num_experts; ++e) {
                if (group_of(e) != g) continue;
                const Best candidate{machine.loadFloat(values + e * 4), e};
                if (candidate.value == -INFINITY) continue;  // excluded by an earlier limit
                const bool after = candidate.value < last.value ||
                                   (candidate.value == last.value && e > last.index);
                if (after) next = better(next, candidate);
            }
            if (next.index == kMaxExperts) break;
            sum += next.value;
            last = next;
        }
        machine.storeFloat(group_values + g * 4, last.index < 0 ? -INFINITY : sum);
    }
    machine.syncWarp();
    for (int kept = 0; kept < keep; ++kept) {
        // Kept groups are those that were taken out: -infinity.
        (void)takeBest(machine, group_values, groups);
    }
    for (int e = lane; e < num_experts; e += 32) {
        if (machine.loadFloat(group_values + group_of(e) * 4) != -INFINITY) {
            machine.storeFloat(values + e * 4, -INFINITY);
        }
    }
    machine.syncWarp();
}

/// Writes the token's scores; false when a logit is not finite.
template <class Machine>
PIPER_KERNEL_BODY bool routerScores(Machine& machine, const RouterArguments& a, const float* logits,
                                    float* scores) {
    const int lane = machine.thread() % 32;
    float top = -INFINITY;
    for (int e = lane; e < a.num_experts; e += 32) top = larger(top, logits[e]);
    top = a.sigmoid ? 0.0F : warpMax(machine, top);
    float sum = 0.0F;
    for (int e = lane; e < a.num_experts; e += 32) {
        sum += a.sigmoid ? sigmoid(logits[e]) : expf(logits[e] - top);
        sum += logits[e] - logits[e];  // NaN for an infinite logit whose score is finite
    }
    sum = warpSum(machine, sum);
    for (int e = lane; e < a.num_experts; e += 32) {
        scores[e] = a.sigmoid ? sigmoid(logits[e]) : expf(logits[e] - top) / sum;
    }
    return sum - sum == 0.0F;  // neither NaN nor infinite
}

template <class Machine>
PIPER_KERNEL_BODY void chooseExperts(Machine& machine, const RouterArguments& a,
                                     const float* scores, int values, std::int32_t* experts) {
    const int lane = machine.thread() % 32;
    for (int e = lane; e < a.num_experts; e += 32) {
        machine.storeFloat(values + e * 4, scores[e] + (a.bias == nullptr ? 0.0F : a.bias[e]));
    }
    machine.syncWarp();
    if (a.num_groups > 1) {
        limitGroups(machine, values, a.num_experts, a.num_groups, a.topk_groups,
                    a.bias == nullptr ? 1 : 2,
                    [&](int e) { return e * a.num_groups / a.num_experts; });
    }
    if (a.node_limit > 0) {
        limitGroups(machine, values, a.num_experts, a.nodes, a.node_limit,
                    ceilDiv(a.router_topk, a.node_limit),
                    [&](int e) { return a.node_of_expert[e]; });
    }
    for (int j = 0; j < a.router_topk; ++j) {
        const int expert = takeBest(machine, values, a.num_experts);
        if (lane == 0) experts[j] = expert;
    }
    machine.syncWarp();
}

/// logits -> scores, experts, weights.
template <class Machine>
PIPER_KERNEL_BODY void routerBody(Machine& machine, const RouterArguments& a) {
    const WarpPlace at = warpPlace(machine);
    const int values = machine.thread() / 32 * routerWarpBytes(a.num_experts);
    for (std::int64_t token = at.warp; token < a.tokens; token += at.warps) {
        float* scores = a.scores + token * a.num_experts;
        std::int32_t* experts = a.experts + token * a.router_topk;
        if (!routerScores(machine, a, a.logits + token * a.num_experts, scores) && at.lane == 0) {
            *a.bad_row = static_cast<std::int32_t>(token);
        }
        machine.syncWarp();  // scores are read by other lanes
        if (!a.replay) chooseExperts(machine, a, scores, values, experts);
        float sum = 0.0F;
        if (a.normalize) {
            for (int j = 0; j < a.router_topk; ++j) sum += scores[experts[j]];
        }
        const float factor = a.normalize ? a.scale / (sum + 1e-20F) : a.scale;
        for (int j = at.lane; j < a.router_topk; j += 32) {
            a.weights[token * a.router_topk + j] = factor * scores[experts[j]];
        }
        machine.syncWarp();
    }
}

struct RouterGradArguments {
    const float* scores;          ///< [tokens, num_experts]
    const std::int32_t* experts;  ///< [tokens, router_topk]
    const float* dweights;        ///< [tokens, router_topk]
    const float* dscore;          ///< [num_experts], added to every row, or null
    float* dlogits;               ///< [tokens, num_experts]
    std::int64_t tokens;
    int num_experts;
    int router_topk;
    float scale;
    bool sigmoid;
    bool normalize;
};

template <class Machine>
PIPER_KERNEL_BODY void routerGradBody(Machine& machine, const RouterGradArguments& a) {
    const WarpPlace at = warpPlace(machine);
    for (std::int64_t token = at.warp; token < a.tokens; token += at.warps) {
        const float* scores = a.scores + token * a.num_experts;
        const std::int32_t* experts = a.experts + token * a.router_topk;
        const float* dweights = a.dweights + token * a.router_topk;
        float sum = 1e-20F;
        float pull = 0.0F;
        for (int j = 0; j < a.router_topk; ++j) {
            sum += scores[experts[j]];
            pull += dweights[j] * scores[experts[j]];
        }
        const float norm = a.normalize ? a.scale / sum : a.scale;
        const float mean = a.normalize ? pull / sum : 0.0F;
        const auto scoreGradient = [&](int e) {
            float d = a.dscore == nullptr ? 0.0F : a.dscore[e];
            for (int j = 0; j < a.router_topk; ++j) {
                if (experts[j] == e) d += norm * (dweights[j] - mean);
            }
            return d;
        };
        float inner = 0.0F;
        if (!a.sigmoid) {
            for (int e = at.lane; e < a.num_experts; e += 32) inner += scoreGradient(e) * scores[e];
            inner = warpSum(machine, inner);
        }
        for (int e = at.lane; e < a.num_experts; e += 32) {
            const float d = scoreGradient(e);
            a.dlogits[token * a.num_experts + e] =
                a.sigmoid ? d * scores[e] * (1.0F - scores[e]) : scores[e] * (d - inner);
        }
    }
}

// ---- permutation: three kernels, stable (rows of an expert keep the order of their slots)

struct PermutationArguments {
    const std::int32_t* experts;  ///< [slots]
    std::int32_t* counts;         ///< [chunks, num_experts], scratch
    std::int64_t* offsets;        ///< [num_experts + 1]
    std::int32_t* slot_of_row;    ///< [slots]
    std::int32_t* row_of_slot;    ///< [slots]; -1 for an expert out of range
    std::int32_t* bad_slot;       ///< set to a slot whose expert is out of range
    int slots;
    int num_experts;
    int chunk;  ///< slots of a warp, a multiple of 32
    int chunks;
};

/// Slots of a chunk: enough chunks for a device, few enough for the sum over them.
inline int permutationChunk(std::int64_t slots) {
    int chunk = 128;
    while (slots / chunk > 1024) chunk *= 2;
    return chunk;
}

PIPER_HOST_DEVICE int countBits(std::uint32_t word) {
#ifdef __CUDA_ARCH__
    return __popc(word);
#else
    return __builtin_popcount(word);
#endif
}

/// Walks a chunk 32 slots at a time; counters of the warp in shared memory at `counters`.
/// visit(slot, expert, place): place is the counter before this slot.
template <class Machine, class Visit>
PIPER_KERNEL_BODY void walkChunk(Machine& machine, const PermutationArguments& a, int chunk,
                                 int counters, Visit visit) {
    const int lane = machine.thread() % 32;
    const int last = smaller(a.slots, (chunk + 1) * a.chunk);
    for (int first = chunk * a.chunk; first < last; first += 32) {
        const int slot = first + lane;
        int expert = slot < last ? a.experts[slot] : -1;
        const bool bad = expert < 0 || expert >= a.num_experts;
        if (bad) expert = -1;
        const std::uint32_t same = machine.matchAny(expert);
        const int before = countBits(same & ((1U << lane) - 1U));
        const int counter = bad ? 0 : machine.loadInt(counters + expert * 4);
        machine.syncWarp();
        if (!bad && before == 0) machine.storeInt(counters + expert * 4, counter + countBits(same));
        machine.syncWarp();
        if (slot < last) visit(slot, expert, counter + before);
    }
}

template <class Machine>
PIPER_KERNEL_BODY void permutationCountBody(Machine& machine, const PermutationArguments& a) {
    const WarpPlace at = warpPlace(machine);
    const int counters = machine.thread() / 32 * a.num_experts * 4;
    if (at.warp >= a.chunks) return;
    for (int e = at.lane; e < a.num_experts; e += 32) machine.storeInt(counters + e * 4, 0);
    machine.syncWarp();
    walkChunk(machine, a, at.warp, counters, [&](int slot, int expert, int) {
        if (expert < 0) *a.bad_slot = slot;
    });
    for (int e = at.lane; e < a.num_experts; e += 32) {
        a.counts[static_cast<std::int64_t>(at.warp) * a.num_experts + e] =
            machine.loadInt(counters + e * 4);
    }
}

/// One block: counts become the slots of earlier chunks with the same expert; offsets.
template <class Machine>
PIPER_KERNEL_BODY void permutationScanBody(Machine& machine, const PermutationArguments& a) {
    for (int e = machine.thread(); e < a.num_experts; e += machine.threads()) {
        int sum = 0;
        for (int c = 0; c < a.chunks; ++c) {
            std::int32_t& count = a.counts[static_cast<std::int64_t>(c) * a.num_experts + e];
            const int mine = count;
            count = sum;
            sum += mine;
        }
        machine.storeInt(e * 4, sum);
    }
    machine.syncBlock();
    if (machine.thread() == 0) {
        std::int64_t sum = 0;
        for (int e = 0; e < a.num_experts; ++e) {
            a.offsets[e] = sum;
            sum += machine.loadInt(e * 4);
        }
        a.offsets[a.num_experts] = sum;
    }
}

template <class Machine>
PIPER_KERNEL_BODY void permutationPlaceBody(Machine& machine, const PermutationArguments& a) {
    const WarpPlace at = warpPlace(machine);
    const int counters = machine.thread() / 32 * a.num_experts * 4;
    if (at.warp >= a.chunks) return;
    for (int e = at.lane; e < a.num_experts; e += 32) {
        const int earlier = a.counts[static_cast<std::int64_t>(at.warp) * a.num_experts + e];
        machine.storeInt(counters + e * 4, static_cast<int>(a.offsets[e]) + earlier);
    }
    machine.syncWarp();
    walkChunk(machine, a, at.warp, counters, [&](int slot, int expert, int row) {
        a.row_of_slot[slot] = expert < 0 ? -1 : row;
        if (expert >= 0) a.slot_of_row[row] = slot;
    });
}

}  // namespace piper::cuda
