// SPDX-License-Identifier: Apache-2.0
#include "core/export/launch.h"

#include <algorithm>

namespace piper {

LaunchShape launchShape(const Plan& plan) {
    const std::int64_t world = plan.layout.world();
    const std::int64_t most = std::max<std::int64_t>(1, plan.cluster.devices_per_node);
    std::int64_t nodes = (world + most - 1) / most;
    while (world % nodes != 0) ++nodes;
    return {nodes, world / nodes};
}

Status setWorld(Plan& plan, std::int64_t world) {
    const Layout& l = plan.layout;
    std::int64_t rest = world;
    for (const std::int64_t degree : {l.tp, l.cp, l.pp}) {
        if (rest < 1 || degree < 1 || rest % degree != 0)
            return fail(ErrorCode::InvalidInput,
                        "{} ranks are no multiple of tp {} x cp {} x pp {}", world, l.tp, l.cp,
                        l.pp);
        rest /= degree;
    }
    plan.layout.dp = rest;
    return {};
}

std::vector<std::pair<std::string, std::string>> launchEnvironment(const Plan& plan,
                                                                   Framework framework) {
    std::vector<std::pair<std::string, std::string>> out;
    const bool sharded = framework == Framework::Megatron && plan.zero_stage >= 2;
    const bool megatron = framework == Framework::Megatron || framework == Framework::DeepSpeed;
    // Megatron-LM wants 1 under tensor and context parallelism and refuses it under its FSDP.
    if (megatron && !sharded) out.emplace_back("CUDA_DEVICE_MAX_CONNECTIONS", "1");
    if (plan.cluster.device.kind == DeviceKind::Cpu) out.emplace_back("OMP_NUM_THREADS", "1");
    if (plan.cluster.device.name.find("MI250X") != std::string::npos) {
        // Slingshot as OLCF advises for RCCL on Frontier.
        out.emplace_back("NCCL_NET_GDR_LEVEL", "3");
        out.emplace_back("NCCL_CROSS_NIC", "0");
        out.emplace_back("NCCL_SOCKET_IFNAME", "hsn0");
        out.emplace_back("FI_MR_CACHE_MONITOR", "kdreg2");
        out.emplace_back("FI_CXI_DEFAULT_CQ_SIZE", "262144");
        out.emplace_back("FI_CXI_RX_MATCH_MODE", "hybrid");
    }
    return out;
}

std::string planTitle(const Plan& plan) {
    const Layout& l = plan.layout;
    std::string name = plan.model.name;
    std::replace(name.begin(), name.end(), '\n', ' ');
    return fmt::format("{} on {} ranks: tp {} cp {} pp {} ep {} etp {} dp {}", name, l.world(),
                       l.tp, l.cp, l.pp, l.ep, l.etp, l.dp);
}

}  // namespace piper
