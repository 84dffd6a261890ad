// SPDX-License-Identifier: Apache-2.0
#include "core/schedule/host.h"

#include <algorithm>

#include "core/cost/kernel_model.h"

namespace piper {
namespace {

/// Host time of one call of a module, of its autograd node and its kernels' launches, in
/// microseconds. Eager PyTorch with TransformerEngine or DeepSpeed's modules; compiled blocks.
constexpr double kEagerCall = 50.0, kCompiledCall = 10.0;
/// A replayed graph is one launch where it stands for a module's calls.
constexpr double kGraphShare = 0.1;
/// Backward: the autograd nodes of the input gradients, and the weight gradients' own calls.
constexpr double kInputGradShare = 0.8, kWeightGradShare = 0.3;

/// Time of GEMMs and attention in a long run over that of the kernels alone, by generation (A100;
/// H100, H200, H800; B200, GB200, B300; GB300 with its 1.4 kW where those have 1.0 to 1.2). Of
/// element-wise kernels of all four.
constexpr double kAmpereRun = 1.17, kHopperRun = 1.2, kBlackwellRun = 1.2, kGb300Run = 1.12,
                 kMemoryRun = 1.5;
/// Of both where the kernel times are TransformerEngine's own on that machine.
constexpr double kOwnKernelsRun = 1.16;
/// A 500 W board of a 700 W device keeps a lower clock.
constexpr double kPowerLimited = 1.25;
/// FlashAttention-2, which PyTorch's own attention calls on Hopper, over cuDNN's kernel.
constexpr double kFlashAttention2 = 1.6;

double callTime(Framework framework) {
    switch (framework) {
        case Framework::Plain:
            return 0.0;
        case Framework::Megatron:
        case Framework::DeepSpeed:
            return kEagerCall;
        case Framework::Torchtitan:
            return kCompiledCall;
    }
    return 0.0;
}

/// Calls of one forward pass of that part of a layer: norms, projections, rotary embedding and
/// fused attention; activation; scores, top-k and losses; sorting, counts and the exchange.
double forwardCalls(const Plan& plan, const OperationKey& key) {
    switch (key.phase) {
        case Phase::Attention:
            return plan.model.attention.kind == AttentionKind::Mla ? 20.0 : 12.0;
        case Phase::Expert:
            return key.layer == LayerKind::Moe && !key.shared_expert ? 14.0 : 8.0;
        case Phase::Router:
            return 15.0;
        case Phase::Dispatch:
            return 20.0;
        case Phase::Combine:
            return 12.0;
        case Phase::HeadLoss:
            return 12.0;
        case Phase::Embedding:
            return 4.0;
        default:
            return 0.0;
    }
}

}  // namespace

Seconds hostTime(const Plan& plan, const OperationKey& key) {
    const double call = callTime(plan.framework);
    if (call == 0.0 || plan.cluster.device.kind == DeviceKind::Cpu) return {};
    double calls = forwardCalls(plan, key);
    if (plan.cuda_graphs && (key.phase == Phase::Attention || key.phase == Phase::Router ||
                             (key.phase == Phase::Expert && key.layer == LayerKind::Dense)))
        calls *= kGraphShare;
    if (key.kind == OperationKind::InputGrad) calls *= kInputGradShare;
    if (key.kind == OperationKind::WeightGrad) calls *= kWeightGradShare;
    return microseconds(call * calls);
}

RunFactors runFactors(const Plan& plan) {
    const DeviceSpec& d = plan.cluster.device;
    if (d.kind == DeviceKind::Cpu || !plan.cluster.curves.empty()) return {};
    const double limited = d.name.find("500W") != std::string::npos ? kPowerLimited : 1.0;
    if (d.kernels == "te") return {kOwnKernelsRun * limited, kOwnKernelsRun * limited};
    switch (deviceGeneration(d.name)) {
        case DeviceGeneration::Ampere:
            return {kAmpereRun * limited, kMemoryRun * limited};
        case DeviceGeneration::Hopper:
            return {kHopperRun * limited, kMemoryRun * limited};
        case DeviceGeneration::Blackwell:
            return {(d.name.starts_with("GB300") ? kGb300Run : kBlackwellRun) * limited,
                    kMemoryRun * limited};
        case DeviceGeneration::Other:
            break;
    }
    return {limited, limited};
}

double attentionFactor(const Plan& plan) {
    return plan.framework == Framework::Torchtitan &&
                   deviceGeneration(plan.cluster.device.name) == DeviceGeneration::Hopper
               ? kFlashAttention2
               : 1.0;
}

}  // namespace piper
