// SPDX-License-Identifier: Apache-2.0
#include "core/search/model_family.h"

#include <algorithm>
#include <cmath>

namespace piper {

template <>
std::span<const EnumName<GrowBy>> enumNames<GrowBy>() {
    static constexpr EnumName<GrowBy> kNames[] = {
        {GrowBy::Layers, "layers"},
        {GrowBy::Experts, "experts"},
        {GrowBy::Hidden, "hidden"},
    };
    return kNames;
}

namespace {

/// Widths stay multiples of this, as kernels want them.
constexpr std::int64_t kWidthMultiple = 64;

/// Query heads that share a key-value head; 1 of multi-head and latent attention.
std::int64_t headsPerGroup(const AttentionSpec& a) {
    return a.kind == AttentionKind::Mla ? 1
                                        : a.num_heads / std::max<std::int64_t>(1, a.num_kv_heads);
}

std::int64_t scaledWidth(std::int64_t width, double scale) {
    if (width == 0) return 0;
    const double steps = static_cast<double>(width) * scale / static_cast<double>(kWidthMultiple);
    return std::max<std::int64_t>(1, std::llround(steps)) * kWidthMultiple;
}

ModelSpec withLayers(const ModelSpec& member, std::int64_t size) {
    ModelSpec out = member;
    out.num_layers = size;
    out.layers.clear();
    const auto first_moe = std::ranges::find(member.layers, LayerKind::Moe);
    // A dense model repeats from its start.
    const auto lead = static_cast<std::size_t>(
        first_moe == member.layers.end() ? 0 : first_moe - member.layers.begin());
    for (std::size_t l = 0; l < static_cast<std::size_t>(size); ++l)
        out.layers.push_back(
            l < lead ? member.layers[l]
                     : member.layers[lead + (l - lead) % (member.layers.size() - lead)]);
    std::erase_if(out.attention.full_attention_layers,
                  [size](std::int64_t layer) { return layer >= size; });
    return out;
}

ModelSpec withExperts(const ModelSpec& member, std::int64_t size) {
    ModelSpec out = member;
    out.moe->num_experts = size;
    // Groups of a group-limited router hold whole experts, and those it reaches the top-k.
    MoeSpec& moe = *out.moe;
    const bool whole = size % moe.num_groups == 0;
    if (!whole || size / moe.num_groups * moe.topk_groups < moe.router_topk)
        moe.num_groups = moe.topk_groups = 1;
    return out;
}

ModelSpec withGroups(const ModelSpec& member, std::int64_t size) {
    ModelSpec out = member;
    const double scale =
        static_cast<double>(size) / static_cast<double>(familySize(member, GrowBy::Hidden));
    out.hidden_size = scaledWidth(member.hidden_size, scale);
    out.ffn_hidden_size = scaledWidth(member.ffn_hidden_size, scale);
    out.attention.num_heads = size * headsPerGroup(member.attention);
    out.attention.num_kv_heads =
        member.attention.kind == AttentionKind::Mla ? out.attention.num_heads : size;
    if (!out.moe) return out;
    out.moe->moe_ffn_hidden_size = scaledWidth(member.moe->moe_ffn_hidden_size, scale);
    out.moe->shared_ffn_hidden_size = scaledWidth(member.moe->shared_ffn_hidden_size, scale);
    return out;
}

Status checkSize(const ModelSpec& member, GrowBy by, std::int64_t size) {
    if (by == GrowBy::Experts && !member.moe)
        return fail(ErrorCode::InvalidInput, "{} is dense: it has no experts to grow", member.name);
    const std::int64_t least = familyLeast(member, by);
    if (size >= least) return {};
    return fail(ErrorCode::InvalidInput, "{} {} of {}: at least {}", size, toText(by), member.name,
                least);
}

}  // namespace

std::int64_t familySize(const ModelSpec& member, GrowBy by) {
    switch (by) {
        case GrowBy::Layers:
            return member.num_layers;
        case GrowBy::Experts:
            return member.moe ? member.moe->num_experts : 0;
        case GrowBy::Hidden:
            return member.attention.num_heads / headsPerGroup(member.attention);
    }
    return 0;
}

std::int64_t familyLeast(const ModelSpec& member, GrowBy by) {
    if (by == GrowBy::Experts) return member.moe ? member.moe->router_topk : 0;
    if (by != GrowBy::Layers) return 1;
    const auto first_moe = std::ranges::find(member.layers, LayerKind::Moe);
    return first_moe == member.layers.end() ? 1 : first_moe - member.layers.begin() + 1;
}

std::int64_t familyStep(const ModelSpec& member, GrowBy by) {
    if (by == GrowBy::Layers || familySize(member, by) == 0) return 1;
    // Sizes that ep and tp degrees divide: the powers of two in the member's own number.
    const std::int64_t size = familySize(member, by);
    std::int64_t step = size & -size;
    while (step > 1 && step > size / 8) step /= 2;
    return step;
}

Result<ModelSpec> familyMember(const ModelSpec& member, GrowBy by, std::int64_t size) {
    PIPER_TRY(checkSize(member, by, size));
    if (size == familySize(member, by)) return member;
    ModelSpec out = by == GrowBy::Layers    ? withLayers(member, size)
                    : by == GrowBy::Experts ? withExperts(member, size)
                                            : withGroups(member, size);
    out.name = fmt::format("{} with {} {}", member.name, size,
                           by == GrowBy::Hidden ? "attention groups" : toText(by));
    const std::vector<Error> errors = checkModel(out);
    if (!errors.empty()) return errors.front();
    return out;
}

}  // namespace piper
