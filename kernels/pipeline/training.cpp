// SPDX-License-Identifier: Apache-2.0
#include "kernels/pipeline/training.h"

#include <algorithm>
#include <memory>
#include <span>

#include "kernels/pipeline/checkpoint.h"
#include "kernels/pipeline/imposed_routing.h"
#include "kernels/pipeline/support.h"

namespace piper {
namespace {

/// Records memory while it lives; the allocator outlives the recorder's use of it.
class MemoryWatch {
public:
    MemoryWatch(TaggedAllocator& allocator, Recorder& recorder, ClockNs clock)
        : m_allocator(allocator) {
        allocator.setObserver([&recorder, clock](MemoryTerm term, std::int64_t bytes) {
            recorder.memory({clock(), term, bytes});
        });
    }
    ~MemoryWatch() { m_allocator.setObserver({}); }
    MemoryWatch(const MemoryWatch&) = delete;
    MemoryWatch& operator=(const MemoryWatch&) = delete;

private:
    TaggedAllocator& m_allocator;
};

struct Routing {
    std::optional<RoutingTrace> record;
    std::unique_ptr<ExpertSource> experts;  ///< null: the router chooses
    std::string_view by = "free";           ///< who chooses, as a counter of the run says
};

Result<Routing> openRouting(const Plan& plan, const TrainingOptions& options) {
    Routing routing;
    if (!plan.model.moe) return routing;
    const std::int64_t topk = plan.model.moe->router_topk;
    if (!options.record_routing.empty()) routing.record.emplace(topk, plan.seq_len);
    if (!options.replay_routing.empty()) {
        PIPER_ASSIGN(RoutingTrace trace,
                     RoutingTrace::read(options.replay_routing, topk, plan.seq_len));
        routing.experts = std::make_unique<RoutingTrace>(std::move(trace));
        routing.by = "replayed";
    } else if (imposesRouting(plan)) {
        routing.experts = std::make_unique<ImposedRouting>(plan, options.constants.seed);
        routing.by = "imposed";
    }
    return routing;
}

class TrainingLoop {
public:
    TrainingLoop(TrainingParts& parts, const TrainingOptions& options, StageModel& model,
                 const RankGroups& groups)
        : m_parts(parts),
          m_options(options),
          m_model(model),
          m_groups(groups),
          m_key{options.constants.seed, parts.plan.global_batch_size, parts.plan.seq_len},
          m_runner(parts.schedule.stages[groups.stage().index()], model, parts.backend,
                   parts.recorder, parts.hooks) {}

    Status run() {
        std::int64_t first = 0;
        if (!m_options.resume.empty()) {
            PIPER_ASSIGN(first, readCheckpoint(m_options.resume, m_key, m_model, m_parts.backend,
                                               checkpointProgress()));
        }
        PIPER_TRY(synchronizeClock());
        for (std::int64_t step = first; step < m_options.steps; ++step) {
            PIPER_TRY(oneStep(step));
            PIPER_TRY(checkpoint(step + 1));
        }
        return synchronizeClock();
    }

private:
    Status checkpoint(std::int64_t done) {
        if (m_options.checkpoint_directory.empty()) return {};
        const bool due = m_options.checkpoint_every > 0 && done % m_options.checkpoint_every == 0;
        if (!due && done != m_options.steps) return {};
        return writeCheckpoint(m_options.checkpoint_directory, done, m_key, m_model, m_groups,
                               m_parts.transport.world(), m_parts.backend, checkpointProgress());
    }

    CheckpointProgress checkpointProgress() {
        return [this](std::string_view doing) -> Status {
            if (m_parts.hooks.noted) m_parts.hooks.noted(doing);
            if (!m_parts.hooks.interrupted) return {};
            if (std::optional<Error> error = m_parts.hooks.interrupted()) return std::move(*error);
            return {};
        };
    }

    Status synchronizeClock() {
        PIPER_ASSIGN(const ClockSample sample,
                     measureClockOffset(m_parts.transport.world(), m_parts.hooks.clock));
        m_parts.recorder.clock(sample);
        return {};
    }

    Status oneStep(std::int64_t step) {
        StepRecord record;
        record.step = static_cast<std::int32_t>(step);
        record.start_ns = m_parts.hooks.clock();
        record.tokens = m_parts.plan.global_batch_size * m_parts.plan.seq_len;
        PIPER_TRY(m_runner.runStep(step));
        record.end_ns = m_parts.hooks.clock();
        record.loss = m_model.result().loss;
        record.gradient_norm = m_model.result().gradient_norm;
        m_parts.recorder.step(record);
        if (m_parts.plan.capacity_factor) {
            m_dropped += m_model.droppedRows();
            m_parts.recorder.counter("dropped_rows", fmt::format("{}", m_dropped));
        }
        for (const auto& [layer, tokens] : m_model.expertLoad())
            m_parts.recorder.expertLoad({record.step, layer, tokens});
        PIPER_TRY(m_parts.recorder.flush());
        PIPER_TRY(m_parts.recorder.status());
        if (!m_parts.progress) return {};
        const double seconds = static_cast<double>(record.end_ns - record.start_ns) * 1e-9;
        StepProgress progress{
            step + 1, m_model.result(), static_cast<double>(record.tokens) / seconds, {}, {}};
        PIPER_TRY(shareWithAll(record.step, progress));
        return m_parts.progress(progress);
    }

    /// What all ranks routed in a step and held at most so far. Outside of the step's time; its
    /// last operation has just brought all ranks together.
    Status shareWithAll(std::int32_t step, StepProgress& out) {
        const ModelSpec& model = m_parts.plan.model;
        Communicator& world = m_parts.transport.world();
        const auto ranks = static_cast<std::size_t>(world.size());
        const auto experts = static_cast<std::size_t>(model.moe ? model.moe->num_experts : 0);
        std::vector<double> sums(ranks + model.layers.size() * experts);  // exact below 2^53
        sums[static_cast<std::size_t>(world.rank())] =
            static_cast<double>(m_parts.backend.allocator().peakBytes());
        for (const auto& [layer, tokens] : m_model.expertLoad())
            std::ranges::copy(
                tokens, std::span(sums).subspan(ranks + layer.index() * experts, experts).begin());
        PIPER_TRY(world.allReduceSum(std::span<double>(sums)));
        const auto counts = [&](std::size_t begin, std::size_t n) {
            const auto part = std::span(sums).subspan(begin, n);
            return std::vector<std::int64_t>(part.begin(), part.end());
        };
        out.rank_peak_bytes = counts(0, ranks);
        for (std::size_t layer = 0; experts > 0 && layer < model.layers.size(); ++layer)
            if (model.isMoe(LayerId(layer)))
                out.load.push_back(
                    {step, LayerId(layer), counts(ranks + layer * experts, experts)});
        return {};
    }

    TrainingParts& m_parts;
    const TrainingOptions& m_options;
    StageModel& m_model;
    const RankGroups& m_groups;
    CheckpointKey m_key;
    ProgramRunner m_runner;
    std::int64_t m_dropped = 0;  ///< rows beyond an expert's capacity, of this attempt so far
};

std::string ownFile(const std::string& path, const Communicator& world) {
    return world.size() == 1 ? path : fmt::format("{}.{}", path, world.rank());
}

}  // namespace

Status train(TrainingParts parts, const TrainingOptions& options) {
    PIPER_TRY(canRun(parts.plan));
    PIPER_ASSIGN(RankGroups groups, makeGroups(parts.plan, parts.transport));
    PIPER_ASSIGN(Routing routing, openRouting(parts.plan, options));
    const MemoryWatch watch(parts.backend.allocator(), parts.recorder, parts.hooks.clock);
    PIPER_ASSIGN(
        const std::unique_ptr<StageModel> model,
        StageModel::create({parts.plan, parts.backend, parts.transport.world(), groups, parts.data,
                            options.constants, routing.record ? &*routing.record : nullptr,
                            routing.experts.get()}));
    parts.recorder.counter("all_to_all.algorithm", toText(model->exchange().choice().algorithm));
    parts.recorder.counter("all_to_all.reason", model->exchange().choice().reason);
    parts.recorder.counter("routing", routing.by);
    if (options.constants.local_rows) parts.recorder.counter("all_to_all.local_rows", "true");
    PIPER_TRY(TrainingLoop(parts, options, *model, groups).run());
    if (!routing.record) return {};
    return routing.record->write(ownFile(options.record_routing, parts.transport.world()));
}

}  // namespace piper
