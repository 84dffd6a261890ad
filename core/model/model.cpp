// SPDX-License-Identifier: Apache-2.0
#include "core/model/model.h"

#include <algorithm>

namespace piper {

std::int64_t ModelSpec::numMoeLayers() const {
    return std::count(layers.begin(), layers.end(), LayerKind::Moe);
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
std::span<const EnumName<LayerKind>> enumNames<LayerKind>() {
    static constexpr EnumName<LayerKind> rows[] = {{LayerKind::Dense, "dense"},
                                                   {LayerKind::Moe, "moe"}};
    return rows;
}

}  // namespace piper
