// SPDX-License-Identifier: Apache-2.0
#include "core/model/model.h"

#include <algorithm>

namespace piper {

std::int64_t ModelSpec::numMoeLayers() const {
    return std::count(layers.begin(), layers.end(), LayerKind::Moe);
}

double ModelSpec::windowShare() const {
    if (attention.sliding_window <= 0 || num_layers <= 0) return 0.0;
    return 1.0 - static_cast<double>(attention.full_attention_layers.size()) /
                     static_cast<double>(num_layers);
}

template <>
std::span<const EnumName<AttentionKind>> enumNames<AttentionKind>() {
    static constexpr EnumName<AttentionKind> rows[] = {{AttentionKind::Gqa, "gqa"},
                                                       {AttentionKind::Mla, "mla"}};
    return rows;
}

template <>
std::span<const EnumName<MlpKind>> enumNames<MlpKind>() {
    static constexpr EnumName<MlpKind> rows[] = {{MlpKind::SwiGlu, "swiglu"},
                                                 {MlpKind::TwoMatrix, "two_matrix"}};
    return rows;
}

template <>
std::span<const EnumName<ScoringFunction>> enumNames<ScoringFunction>() {
    static constexpr EnumName<ScoringFunction> rows[] = {{ScoringFunction::Softmax, "softmax"},
                                                         {ScoringFunction::Sigmoid, "sigmoid"}};
    return rows;
}

template <>
std::span<const EnumName<NormKind>> enumNames<NormKind>() {
    static constexpr EnumName<NormKind> rows[] = {{NormKind::RmsNorm, "rms_norm"},
                                                  {NormKind::LayerNorm, "layer_norm"}};
    return rows;
}

template <>
std::span<const EnumName<PositionKind>> enumNames<PositionKind>() {
    static constexpr EnumName<PositionKind> rows[] = {{PositionKind::Rotary, "rotary"},
                                                      {PositionKind::Learned, "learned"}};
    return rows;
}

template <>
std::span<const EnumName<LayerKind>> enumNames<LayerKind>() {
    static constexpr EnumName<LayerKind> rows[] = {{LayerKind::Dense, "dense"},
                                                   {LayerKind::Moe, "moe"}};
    return rows;
}

}  // namespace piper
