// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/plan/plan.h"

namespace piper::test {

/// A GQA model whose sizes are small enough to compute by hand.
inline ModelSpec smallMoe(std::int64_t layers = 4) {
    ModelSpec m;
    m.name = "small";
    m.model_type = "piper";
    m.hidden_size = 64;
    m.num_layers = layers;
    m.vocab_size = 512;
    m.ffn_hidden_size = 256;
    m.attention.num_heads = 8;
    m.attention.num_kv_heads = 4;
    m.attention.head_dim = 8;
    MoeSpec moe;
    moe.num_experts = 8;
    moe.router_topk = 2;
    moe.moe_ffn_hidden_size = 96;
    m.moe = moe;
    m.layers.assign(static_cast<std::size_t>(layers), LayerKind::Moe);
    return m;
}

/// DeepSeek-V2-Lite's shape: MLA, 64 experts top-6, two shared experts, first layer dense.
inline ModelSpec mlaMoe() {
    ModelSpec m;
    m.name = "mla";
    m.model_type = "piper";
    m.hidden_size = 2048;
    m.num_layers = 27;
    m.vocab_size = 102400;
    m.ffn_hidden_size = 10944;
    m.attention.kind = AttentionKind::Mla;
    m.attention.num_heads = 16;
    m.attention.num_kv_heads = 16;
    m.attention.kv_lora_rank = 512;
    m.attention.qk_nope_head_dim = 128;
    m.attention.qk_rope_head_dim = 64;
    m.attention.v_head_dim = 128;
    MoeSpec moe;
    moe.num_experts = 64;
    moe.router_topk = 6;
    moe.moe_ffn_hidden_size = 1408;
    moe.shared_ffn_hidden_size = 2816;
    m.moe = moe;
    m.layers.assign(27, LayerKind::Moe);
    m.layers[0] = LayerKind::Dense;
    return m;
}

/// 8 nodes x 8 devices with round numbers: inside a node 400 GB/s and 2 us, between nodes
/// 50 GB/s a device and 5 us.
inline ClusterSpec roundCluster(std::int64_t nodes = 8) {
    ClusterSpec c;
    c.name = "round";
    c.device.name = "round device";
    c.device.peak[Precision::Bf16] = tflops(1000);
    c.device.peak[Precision::Fp32] = tflops(100);
    c.device.memory = gib(80);
    c.device.memory_bandwidth = gbps(3000);
    c.device.launch_overhead = microseconds(4);
    c.devices_per_node = 8;
    c.nodes = nodes;
    LinkLevel inside;
    inside.name = "nvlink";
    inside.domain_devices = 8;
    inside.bandwidth = inside.port_bandwidth = gbps(400);
    inside.latency = microseconds(2);
    LinkLevel between = inside;
    between.name = "ib";
    between.domain_devices = 8 * nodes;
    between.bandwidth = between.port_bandwidth = gbps(50);
    between.latency = microseconds(5);
    c.levels = {inside, between};
    return c;
}

inline Plan smallPlan(Layout layout, std::int64_t num_microbatches = 4) {
    Plan p;
    p.model = smallMoe();
    p.cluster = roundCluster();
    p.layout = layout;
    p.precision = Precision::Fp32;
    p.seq_len = 32;
    p.micro_batch_size = 2;
    p.global_batch_size = 2 * layout.dp * num_microbatches;
    return p;
}

}  // namespace piper::test
