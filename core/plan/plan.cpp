// SPDX-License-Identifier: Apache-2.0
#include "core/plan/plan.h"

#include <algorithm>

#include "core/plan/pipeline_shape.h"

namespace piper {

template <>
std::span<const EnumName<ScheduleKind>> enumNames<ScheduleKind>() {
    static constexpr EnumName<ScheduleKind> rows[] = {
        {ScheduleKind::GPipe, "gpipe"},
        {ScheduleKind::OneF1B, "1f1b"},
        {ScheduleKind::InterleavedOneF1B, "interleaved_1f1b"},
        {ScheduleKind::ZbH1, "zb_h1"},
        {ScheduleKind::ZbH2, "zb_h2"},
        {ScheduleKind::ZbV, "zb_v"},
        {ScheduleKind::DualPipe, "dualpipe"},
        {ScheduleKind::DualPipeV, "dualpipe_v"}};
    return rows;
}

template <>
std::span<const EnumName<Framework>> enumNames<Framework>() {
    static constexpr EnumName<Framework> rows[] = {{Framework::Plain, "plain"},
                                                   {Framework::Megatron, "megatron"},
                                                   {Framework::DeepSpeed, "deepspeed"},
                                                   {Framework::Torchtitan, "torchtitan"}};
    return rows;
}

template <>
std::span<const EnumName<AllToAllAlgorithm>> enumNames<AllToAllAlgorithm>() {
    static constexpr EnumName<AllToAllAlgorithm> rows[] = {
        {AllToAllAlgorithm::Auto, "auto"},          {AllToAllAlgorithm::Flat, "flat"},
        {AllToAllAlgorithm::Node, "node"},          {AllToAllAlgorithm::Rail, "rail"},
        {AllToAllAlgorithm::NodePair, "node_pair"}, {AllToAllAlgorithm::NodeDedup, "node_dedup"},
        {AllToAllAlgorithm::Vendor, "vendor"}};
    return rows;
}

template <>
std::span<const EnumName<AllToAllLibrary>> enumNames<AllToAllLibrary>() {
    static constexpr EnumName<AllToAllLibrary> rows[] = {{AllToAllLibrary::Auto, "auto"},
                                                         {AllToAllLibrary::Nccl, "nccl"},
                                                         {AllToAllLibrary::DeepEp, "deepep"},
                                                         {AllToAllLibrary::HybridEp, "hybridep"}};
    return rows;
}

template <>
std::span<const EnumName<RecomputeGranularity>> enumNames<RecomputeGranularity>() {
    static constexpr EnumName<RecomputeGranularity> rows[] = {
        {RecomputeGranularity::None, "none"},
        {RecomputeGranularity::Selective, "selective"},
        {RecomputeGranularity::Full, "full"}};
    return rows;
}

template <>
std::span<const EnumName<RecomputeMethod>> enumNames<RecomputeMethod>() {
    static constexpr EnumName<RecomputeMethod> rows[] = {{RecomputeMethod::Block, "block"},
                                                         {RecomputeMethod::Uniform, "uniform"}};
    return rows;
}

template <>
std::span<const EnumName<OptimizerKind>> enumNames<OptimizerKind>() {
    static constexpr EnumName<OptimizerKind> rows[] = {{OptimizerKind::AdamW, "adamw"},
                                                       {OptimizerKind::Adafactor, "adafactor"},
                                                       {OptimizerKind::Muon, "muon"},
                                                       {OptimizerKind::Sgd, "sgd"}};
    return rows;
}

template <>
std::span<const EnumName<StateFormat>> enumNames<StateFormat>() {
    static constexpr EnumName<StateFormat> rows[] = {
        {StateFormat::Default, "default"}, {StateFormat::None, "none"}, {StateFormat::Fp32, "fp32"},
        {StateFormat::Bf16, "bf16"},       {StateFormat::Fp16, "fp16"}, {StateFormat::Fp8, "fp8"}};
    return rows;
}

template <>
std::span<const EnumName<RoutingLoadKind>> enumNames<RoutingLoadKind>() {
    static constexpr EnumName<RoutingLoadKind> rows[] = {{RoutingLoadKind::Uniform, "uniform"},
                                                         {RoutingLoadKind::Zipf, "zipf"},
                                                         {RoutingLoadKind::Histogram, "histogram"}};
    return rows;
}

std::vector<std::int64_t> balancedStageLayers(std::int64_t num_layers, std::int64_t chunks) {
    std::vector<std::int64_t> layers(static_cast<std::size_t>(chunks), num_layers / chunks);
    std::size_t first = 0;
    std::size_t last = layers.size() - 1;
    for (std::int64_t left = num_layers % chunks; left > 0; --left) {
        const bool front = left % 2 == (num_layers % chunks) % 2;
        ++layers[front ? first++ : last--];
    }
    return layers;
}

std::vector<std::int64_t> effectiveStageLayers(const Plan& plan) {
    if (!plan.stage_layers.empty()) return plan.stage_layers;
    return balancedStageLayers(plan.model.num_layers, plan.layout.pp * plan.layout.vpp);
}

LayerRange stageLayers(const Plan& plan, StageId stage, ModelChunkId chunk) {
    const std::vector<std::int64_t> layers = effectiveStageLayers(plan);
    const auto entry = static_cast<std::size_t>(positionOf(pipelineShape(plan), {stage, chunk}));
    PIPER_CHECK(entry < layers.size());
    LayerRange range;
    for (std::size_t i = 0; i < entry; ++i) range.begin += layers[i];
    range.end = range.begin + layers[entry];
    return range;
}

}  // namespace piper
