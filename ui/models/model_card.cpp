// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/model_card.h"

#include <QStringList>

#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

QString attentionText(const AttentionSpec& a) {
    if (a.kind == AttentionKind::Mla)
        return QStringLiteral("MLA, %1 heads, KV rank %2").arg(a.num_heads).arg(a.kv_lora_rank);
    if (a.num_kv_heads == a.num_heads)
        return QStringLiteral("MHA, %1 heads of %2").arg(a.num_heads).arg(a.head_dim);
    return QStringLiteral("GQA, %1 heads of %2, %3 KV")
        .arg(a.num_heads)
        .arg(a.head_dim)
        .arg(a.num_kv_heads);
}

}  // namespace

std::vector<CardRow> modelCard(const ModelSpec& model) {
    const ModelParameters p = modelParameters(model);
    std::vector<CardRow> out;
    out.push_back({QStringLiteral("Parameters"),
                   QStringLiteral("%1 (%2 active)")
                       .arg(parametersText(static_cast<double>(p.total)),
                            parametersText(static_cast<double>(p.active))),
                   QStringLiteral("All parameters, and those one token passes through.")});
    out.push_back({QStringLiteral("Layers"),
                   QStringLiteral("%1 (%2 MoE)").arg(model.num_layers).arg(model.numMoeLayers()),
                   QStringLiteral("Transformer layers.")});
    out.push_back({QStringLiteral("Hidden size"), countText(model.hidden_size), {}});
    out.push_back({QStringLiteral("Attention"), attentionText(model.attention), {}});
    if (model.moe) {
        out.push_back({QStringLiteral("Experts"),
                       QStringLiteral("%1, top-%2, width %3")
                           .arg(model.moe->num_experts)
                           .arg(model.moe->router_topk)
                           .arg(countText(model.moe->moe_ffn_hidden_size)),
                       QStringLiteral("Routed experts of a layer, experts a token is sent to, "
                                      "intermediate size of one expert.")});
        if (model.moe->shared_ffn_hidden_size > 0)
            out.push_back(
                {QStringLiteral("Shared experts"),
                 QStringLiteral("width %1").arg(countText(model.moe->shared_ffn_hidden_size)),
                 {}});
    }
    out.push_back({QStringLiteral("Vocabulary"), countText(model.vocab_size), {}});
    return out;
}

std::vector<CardRow> clusterCard(const ClusterSpec& cluster) {
    std::vector<CardRow> out;
    out.push_back({QStringLiteral("Devices"),
                   QStringLiteral("%1 × %2 %3")
                       .arg(cluster.nodes)
                       .arg(cluster.devices_per_node)
                       .arg(text(cluster.device.name)),
                   QStringLiteral("Nodes × devices of a node.")});
    out.push_back({QStringLiteral("Memory"),
                   bytesText(cluster.device.memory) + QStringLiteral(" /device"),
                   text(cluster.device.source)});
    for (const LinkLevel& level : cluster.levels)
        out.push_back(
            {text(level.name),
             text(humanBytesPerSecond(level.bandwidth)) + QStringLiteral(", ") +
                 secondsText(level.latency),
             QStringLiteral("Bandwidth of a device and direction; latency of a message. ") +
                 text(level.source)});
    out.push_back(
        {QStringLiteral("Calibration"),
         cluster.curves.empty()
             ? QStringLiteral("not measured")
             : QStringLiteral("measured %1").arg(text(cluster.curves.measured_at)),
         QStringLiteral("Whether curves measured on this cluster back the predictions.")});
    return out;
}

namespace {

void addPrograms(const HostFacts& facts, std::vector<CardRow>& out) {
    const std::pair<const char*, const char*> programs[] = {
        {"mpirun", "Starts the ranks of a run."},
        {"srun", "Starts ranks inside an allocation of Slurm's."},
        {"nvcc", "CUDA's compiler."},
        {"nccl", "Carries what GPUs send each other."}};
    for (const auto& [program, definition] : programs)
        if (const auto found = facts.programs.find(program); found != facts.programs.end())
            out.push_back({text(found->first), text(found->second).section(u'\n', 0, 0),
                           QString::fromLatin1(definition)});
}

void addDevices(const HostFacts& facts, std::vector<CardRow>& out) {
    if (facts.gpus.empty())
        out.push_back({QStringLiteral("GPUs"), QStringLiteral("none found"), {}});
    else
        out.push_back({QStringLiteral("GPUs"),
                       QStringLiteral("%1 × %2, %3, driver %4")
                           .arg(facts.gpus.size())
                           .arg(text(facts.gpus.front().name), bytesText(facts.gpus.front().memory),
                                text(facts.gpus.front().driver)),
                       QStringLiteral("As nvidia-smi lists them.")});
    if (!facts.gpu_links.empty())
        out.push_back({QStringLiteral("GPU links"), text(facts.gpu_links),
                       QStringLiteral("As nvidia-smi topo -m draws them.")});
    for (const NicFacts& nic : facts.nics) {
        QString value = text(nic.kind);
        if (nic.rate.value > 0) value += QStringLiteral(", ") + text(humanBytesPerSecond(nic.rate));
        QStringList near;
        for (const int gpu : nic.gpus_near) near << QString::number(gpu);
        if (!near.isEmpty())
            value += QStringLiteral(", next to GPU ") + near.join(QStringLiteral(", "));
        out.push_back({text(nic.name), value,
                       QStringLiteral("Network interface, with the GPUs on its PCIe switch.")});
    }
}

void addSlurm(const HostFacts& facts, std::vector<CardRow>& out) {
    for (const PartitionFacts& p : facts.partitions)
        out.push_back({QStringLiteral("Partition %1").arg(text(p.name)),
                       QStringLiteral("%1 nodes of %2 processors, %3, limit %4, %5%6")
                           .arg(p.nodes)
                           .arg(p.processors)
                           .arg(bytesText(p.memory), text(p.time_limit), text(p.state),
                                p.is_default ? QStringLiteral(" (default)") : QString()),
                       text(p.gres)});
    for (const std::string& one : facts.switches)
        out.push_back({QStringLiteral("Switch"), text(one), {}});
}

}  // namespace

std::vector<CardRow> hostCard(const HostFacts& facts) {
    std::vector<CardRow> out;
    out.push_back({QStringLiteral("Host"), text(facts.host), QStringLiteral("Its own name.")});
    out.push_back(
        {QStringLiteral("System"), text(facts.system), QStringLiteral("Its distribution.")});
    out.push_back({QStringLiteral("Processors"),
                   QStringLiteral("%1 × %2").arg(facts.processors).arg(text(facts.processor)),
                   QStringLiteral("Hardware threads this user may run on.")});
    out.push_back({QStringLiteral("Memory"), bytesText(facts.memory), {}});
    if (facts.cores > 0)
        out.push_back({QStringLiteral("Cores"),
                       QStringLiteral("%1 on %2 sockets, %3 NUMA nodes")
                           .arg(facts.cores)
                           .arg(facts.sockets)
                           .arg(facts.numa_nodes),
                       {}});
    addDevices(facts, out);
    addPrograms(facts, out);
    addSlurm(facts, out);
    for (const ScratchFacts& s : facts.scratch)
        out.push_back({QStringLiteral("Scratch"),
                       QStringLiteral("%1, %2 free").arg(text(s.path), bytesText(s.free)),
                       QStringLiteral("A directory that may be written.")});
    for (const std::string& one : facts.missing)
        out.push_back({QStringLiteral("Missing"), text(one),
                       QStringLiteral("What could not be found out, and why.")});
    return out;
}

QString layoutText(const Plan& plan) {
    const Layout& l = plan.layout;
    QString out =
        QStringLiteral("tp %1 · pp %2 · ep %3 · dp %4").arg(l.tp).arg(l.pp).arg(l.ep).arg(l.dp);
    if (l.cp > 1) out += QStringLiteral(" · cp %1").arg(l.cp);
    if (l.etp > 1) out += QStringLiteral(" · etp %1").arg(l.etp);
    if (l.vpp > 1) out += QStringLiteral(" · vpp %1").arg(l.vpp);
    return out + QStringLiteral(" · micro-batch %1").arg(plan.micro_batch_size);
}

}  // namespace piper::ui
