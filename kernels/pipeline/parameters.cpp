// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/parameters.h"

#include <algorithm>
#include <cmath>

#include "kernels/pipeline/carve.h"

namespace piper {
namespace {

constexpr std::array<MemoryTerm, kNumParameterCopies> kTerms{
    MemoryTerm::Weights, MemoryTerm::Gradients, MemoryTerm::OptimizerState,
    MemoryTerm::OptimizerState};
constexpr std::array kGroups{ParameterGroup::Dense, ParameterGroup::Expert};

bool isMoment(ParameterCopy copy) {
    return copy == ParameterCopy::FirstMoment || copy == ParameterCopy::SecondMoment;
}

/// Writes the initial values of one piece through host memory.
Status initialize(Backend& backend, const CarvedPiece& carved, std::uint64_t seed, Vector out,
                  std::vector<float>& host) {
    const TensorPiece& p = carved.piece;
    const InitialValues& initial = carved.initial;
    if (out.empty()) return {};
    if (initial.kind == InitialValues::Kind::One) return backend.fill(out, 1.0F);
    if (initial.kind == InitialValues::Kind::Zero) return backend.fill(out, 0.0F);
    host.resize(out.size());
    const WeightKey key{seed, carved.layer, initial.tensor, initial.expert};
    fillInitialWeights({host.data(), p.rows, p.cols}, key, initial.stddev, p.full_cols, p.first_row,
                       p.first_col);
    return backend.copyToDevice(std::as_bytes(std::span(host)), std::as_writable_bytes(out));
}

}  // namespace

LayerTensors& StageTensors::of(LayerId layer) {
    for (LayerTensors& tensors : layers)
        if (tensors.layer == layer) return tensors;
    PIPER_CHECK(!"a layer of another stage");
    return layers.front();
}

Vector ParameterStore::part(ParameterCopy copy, ParameterGroup group, std::int64_t offset,
                            std::int64_t count) {
    if (isMoment(copy)) offset -= shard(group).begin;
    return buffer(copy, group)
        .floats()
        .subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(count));
}

/// Buffers that replicas share out are made a multiple of their number long.
Status ParameterStore::allocate(Backend& backend,
                                const std::array<std::int64_t, kNumParameterGroups>& used) {
    for (const ParameterGroup group : kGroups) {
        const auto g = static_cast<std::size_t>(group);
        const Communicator* replicas = m_shards[g];
        const std::int64_t n = replicas == nullptr ? 1 : replicas->size();
        const std::int64_t each = (used[g] + n - 1) / n;
        const std::int64_t first = replicas == nullptr ? 0 : replicas->rank() * each;
        m_shard[g] = {first, first + each};
        for (std::size_t c = 0; c < kNumParameterCopies; ++c) {
            const auto copy = static_cast<ParameterCopy>(c);
            PIPER_ASSIGN(buffer(copy, group), backend.allocator().allocateFloats(
                                                  kTerms[c], isMoment(copy) ? each : n * each));
            if (!buffer(copy, group).empty())
                PIPER_TRY(backend.fill(buffer(copy, group).floats(), 0.0F));
        }
    }
    return {};
}

Result<ParameterStore> ParameterStore::create(const Plan& plan, const ParameterPlace& place,
                                              std::uint64_t seed, Backend& backend,
                                              ShardGroups shards) {
    ParameterStore store;
    store.m_shards = {shards.dense, shards.expert};
    for (Communicator*& replicas : store.m_shards)
        if (replicas != nullptr && replicas->size() == 1) replicas = nullptr;
    PIPER_TRY(store.allocate(backend, carveStage(plan, place, {}).used));
    const auto base = [&](ParameterCopy copy) -> std::array<float*, kNumParameterGroups> {
        return {store.buffer(copy, ParameterGroup::Dense).floats().data(),
                store.buffer(copy, ParameterGroup::Expert).floats().data()};
    };
    CarvedStage weights = carveStage(plan, place, base(ParameterCopy::Weight));
    std::vector<float> host;
    for (const CarvedPiece& piece : weights.pieces)
        PIPER_TRY(initialize(
            backend, piece, seed,
            store.part(ParameterCopy::Weight, piece.group, piece.piece.offset, piece.piece.size()),
            host));
    store.m_entries = std::move(weights.entries);
    store.m_weights = std::move(weights.tensors);
    store.m_gradients = carveStage(plan, place, base(ParameterCopy::Gradient)).tensors;
    return store;
}

Status ParameterStore::clearGradients(Backend& backend) {
    for (const ParameterGroup group : kGroups)
        PIPER_TRY(backend.fill(flat(ParameterCopy::Gradient, group), 0.0F));
    return {};
}

Status ParameterStore::reduceGradients(ParameterGroup group, Communicator& replicas,
                                       Backend& backend) {
    const Vector gradients = flat(ParameterCopy::Gradient, group);
    if (!sharded(group)) return replicas.allReduceSum(gradients);
    const ShardRange own = shard(group);
    PIPER_ASSIGN(const Buffer sum, backend.allocator().allocateFloats(
                                       MemoryTerm::CommunicationBuffer, own.end - own.begin));
    PIPER_TRY(replicas.reduceScatterSum(gradients, sum.floats()));
    return backend.copyToDevice(std::as_bytes(sum.floats()),
                                std::as_writable_bytes(part(ParameterCopy::Gradient, group,
                                                            own.begin, own.end - own.begin)));
}

Status ParameterStore::gatherWeights(ParameterGroup group, Backend& backend) {
    Communicator* replicas = m_shards[static_cast<std::size_t>(group)];
    if (replicas == nullptr) return {};
    const ShardRange own = shard(group);
    PIPER_ASSIGN(const Buffer sent, backend.allocator().allocateFloats(
                                        MemoryTerm::CommunicationBuffer, own.end - own.begin));
    PIPER_TRY(backend.copyToDevice(
        std::as_bytes(part(ParameterCopy::Weight, group, own.begin, own.end - own.begin)),
        std::as_writable_bytes(sent.floats())));
    return replicas->allGather(std::as_bytes(sent.floats()),
                               std::as_writable_bytes(flat(ParameterCopy::Weight, group)));
}

template <class Visit>
Status ParameterStore::eachOwned(ParameterGroup group, Visit&& visit) {
    const ShardRange own = shard(group);
    for (const ParameterEntry& entry : m_entries) {
        if (entry.group != group) continue;
        const std::int64_t begin = std::max(entry.offset, own.begin);
        const std::int64_t end = std::min(entry.offset + entry.count, own.end);
        if (begin < end) PIPER_TRY(visit(entry, begin, end - begin));
    }
    return {};
}

Result<double> ParameterStore::squaredNorm(Backend& backend, ParameterGroup group,
                                           std::int64_t tensor_ranks) {
    double sum = 0.0;
    PIPER_TRY(eachOwned(
        group, [&](const ParameterEntry& entry, std::int64_t offset, std::int64_t n) -> Status {
            if (!entry.counted) return {};
            double own = 0.0;
            PIPER_TRY(backend.addSquaredSum(part(ParameterCopy::Gradient, group, offset, n), own));
            sum += entry.replicated ? own / static_cast<double>(tensor_ranks) : own;
            return {};
        }));
    return sum;
}

Result<std::optional<std::int64_t>> ParameterStore::nonFiniteLayer(Backend& backend,
                                                                   std::int64_t num_layers) {
    std::optional<std::int64_t> lowest;
    for (const ParameterEntry& entry : m_entries) {
        double sum = 0.0;
        PIPER_TRY(backend.addSquaredSum(gradient(entry), sum));
        if (std::isfinite(sum)) continue;
        const std::int64_t layer = entry.layer.valid() ? entry.layer.value : num_layers;
        lowest = lowest ? std::min(*lowest, layer) : layer;
    }
    return lowest;
}

Status ParameterStore::update(Backend& backend, const AdamWParameters& parameters) {
    for (const ParameterGroup group : kGroups)
        PIPER_TRY(eachOwned(
            group, [&](const ParameterEntry& entry, std::int64_t offset, std::int64_t n) -> Status {
                AdamWParameters own = parameters;
                if (!entry.decays) own.weight_decay = 0.0;
                return backend.adamW(own, part(ParameterCopy::Gradient, group, offset, n),
                                     part(ParameterCopy::Weight, group, offset, n),
                                     part(ParameterCopy::FirstMoment, group, offset, n),
                                     part(ParameterCopy::SecondMoment, group, offset, n));
            }));
    return {};
}

}  // namespace piper
