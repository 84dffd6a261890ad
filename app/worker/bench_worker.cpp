// SPDX-License-Identifier: Apache-2.0
#include "app/worker/bench_worker.h"

#include <fmt/format.h>
#include <time.h>

#include <filesystem>

#include "app/worker/small_training.h"
#include "collectors/live/live_recorder.h"
#include "core/base/json.h"
#include "core/base/sample.h"
#include "kernels/cpu/bench.h"

namespace piper {
namespace {

/// CPU time of all threads of this process.
double processSeconds() {
    timespec now{};
    PIPER_CHECK(::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now) == 0);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

ClusterSpec oneDevice() {
    ClusterSpec cluster;
    cluster.name = "one rank";
    cluster.nodes = cluster.devices_per_node = 1;
    cluster.device.name = "cpu";
    cluster.device.kind = DeviceKind::Cpu;
    return cluster;
}

Json ratioOf(const std::vector<double>& above, const std::vector<double>& below) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < above.size(); ++i) ratios.push_back(above[i] / below[i]);
    return {{"n", ratios.size()},
            {"median", median(ratios)},
            {"low", quantile(ratios, 0.25)},
            {"high", quantile(ratios, 0.75)}};
}

void addTo(std::vector<double>& sums, const std::vector<double>& values) {
    sums.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
}

/// The three passes of as many tokens together, beside the packed products.
Json wholePhase(const std::vector<ExpertPairs>& pairs, std::int64_t tokens) {
    std::vector<double> own, peer, again;
    double flops = 0.0;
    for (const ExpertPairs& p : pairs) {
        if (p.tokens != tokens || p.peer != ExpertPeer::Packed) continue;
        flops += p.flops;
        addTo(own, p.own);
        addTo(peer, p.peer_seconds);
        addTo(again, p.again);
    }
    return {{"tokens", tokens},
            {"flops_per_second", flops / median(own)},
            {"peer_flops_per_second", flops / median(peer)},
            {"ratio", ratioOf(peer, own)},
            {"against_itself", ratioOf(again, own)}};
}

Result<Json> benchExpertPhase(bool quick) {
    const ExpertShape shape = quick ? ExpertShape{4, 128, 64} : ExpertShape{};
    const std::vector<std::int64_t> tokens =
        quick ? std::vector<std::int64_t>{4, 16} : std::vector<std::int64_t>{1, 4, 16, 64, 256};
    PIPER_ASSIGN(const std::vector<ExpertPairs> pairs, benchExperts(shape, tokens, quick ? 3 : 11));
    Json rows = Json::array();
    for (const ExpertPairs& p : pairs)
        rows.push_back({{"tokens", p.tokens},
                        {"pass", toText(p.pass)},
                        {"peer", toText(p.peer)},
                        {"flops_per_second", p.flops / median(p.own)},
                        {"peer_flops_per_second", p.flops / median(p.peer_seconds)},
                        {"ratio", ratioOf(p.peer_seconds, p.own)},
                        {"against_itself", ratioOf(p.again, p.own)}});
    Json phases = Json::array();
    for (const std::int64_t t : tokens) phases.push_back(wholePhase(pairs, t));
    return Json{{"num_experts", shape.num_experts},
                {"hidden_size", shape.hidden},
                {"moe_ffn_hidden_size", shape.ffn},
                {"rows", rows},
                {"phases", phases}};
}

Result<Json> benchStep(Transport& transport, bool quick) {
    const SmallShape shape =
        quick ? SmallShape{128, 4, 64, 64, 2, 2, 1} : SmallShape{1024, 16, 1024, 512, 4, 4, 1};
    const std::int64_t size = quick ? 256 : 2048, steps = quick ? 3 : 9, warm_up = 2;
    const Plan plan = replicas(oneDevice(), shape);
    const double flops = modelFlopsPerToken(plan.model, plan.seq_len).total().value *
                         static_cast<double>(plan.global_batch_size * plan.seq_len);
    std::vector<double> step_rates, product_rates;
    double begin = processSeconds();
    MemoryRecorder recorder;
    const auto progress = [&](const StepProgress& p) -> Status {
        const double seconds = processSeconds() - begin;
        if (p.step > warm_up) {
            step_rates.push_back(flops / seconds);
            PIPER_ASSIGN(product_rates.emplace_back(), bestSquareRate(size, 2));
        }
        begin = processSeconds();
        return {};
    };
    PIPER_TRY(trainReplicas(transport, plan, recorder, warm_up + steps, progress));
    const double best = quantile(product_rates, 1.0);
    return Json{{"hidden_size", shape.hidden},
                {"num_layers", shape.layers},
                {"num_experts", plan.model.moe->num_experts},
                {"router_topk", plan.model.moe->router_topk},
                {"moe_ffn_hidden_size", shape.ffn},
                {"seq_len", shape.seq_len},
                {"micro_batch_size", shape.micro_batch_size},
                {"model_flops", flops},
                {"flops_per_second", median(step_rates)},
                {"gemm_size", size},
                {"gemm_flops_per_second", best},
                {"of_best_gemm", median(step_rates) / best},
                {"ratio", ratioOf(step_rates, product_rates)},
                {"slowest_gemm_of_best", quantile(product_rates, 0.0) / best}};
}

/// Hands on to another recorder in some steps and to none in the others.
class EverySecondStep final : public Recorder {
public:
    explicit EverySecondStep(Recorder& to) : m_to(to) {}
    void collect(bool on) { m_on = on; }
    [[nodiscard]] std::int64_t events() const { return m_events; }

    std::int32_t name(std::string_view text) override { return m_to.name(text); }
    std::int32_t track(const Track& track) override { return m_to.track(track); }
    void event(const Event& event) override {
        if (!m_on) return;
        ++m_events;
        m_to.event(event);
    }
    void memory(const MemorySample& sample) override {
        if (m_on) m_to.memory(sample);
    }
    void clock(const ClockSample& sample) override { m_to.clock(sample); }
    void step(const StepRecord& record) override {
        if (m_on) m_to.step(record);
    }
    void expertLoad(const ExpertLoad& load) override {
        if (m_on) m_to.expertLoad(load);
    }
    void counter(std::string_view name, std::string_view value) override {
        m_to.counter(name, value);
    }
    Status flush() override { return m_on ? m_to.flush() : Status{}; }
    [[nodiscard]] Status status() const override { return m_to.status(); }
    Status finish(RunOutcome outcome, std::string_view reason) override {
        return m_to.finish(outcome, reason);
    }

private:
    Recorder& m_to;
    bool m_on = false;
    std::int64_t m_events = 0;
};

/// Of what the runner reads at an operation, collecting or not: the thread's CPU time once, the
/// clock on the wall at its begin and end.
double clockReadingSeconds() {
    constexpr int kReadings = 20000;
    const double begin = processSeconds();
    for (int i = 0; i < kReadings; ++i) {
        timespec now{};
        ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        ::clock_gettime(CLOCK_MONOTONIC, &now);
        ::clock_gettime(CLOCK_MONOTONIC, &now);
    }
    return (processSeconds() - begin) / kReadings;
}

Result<Json> benchCollecting(Transport& transport, const std::string& directory, bool quick) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    const Plan plan = replicas(oneDevice(), {128, 4, 192, 128, 4, 2, 4});
    LiveOptions live;
    live.job_directory = directory;
    live.rank = RankId(0);
    live.stage = StageId(0);
    live.plan_json = writePlan(plan).dump();
    PIPER_ASSIGN(const std::unique_ptr<LiveRecorder> file, LiveRecorder::create(std::move(live)));
    EverySecondStep recorder(*file);
    const std::int64_t warm_up = 4, pairs = quick ? 3 : 61;
    // Off, on, off, on, ...: a pair is a step with and the one before without; two steps without
    // are one and the next but one.
    std::vector<double> off, on;
    double begin = processSeconds();
    const auto progress = [&](const StepProgress& p) -> Status {
        const double seconds = processSeconds() - begin;
        const bool collected = p.step % 2 == 0;
        if (p.step > warm_up) (collected ? on : off).push_back(seconds);
        recorder.collect(!collected);
        begin = processSeconds();
        return {};
    };
    PIPER_TRY(trainReplicas(transport, plan, recorder, warm_up + 2 * pairs, progress));
    PIPER_TRY(file->finish(RunOutcome::Finished, ""));
    const double events = static_cast<double>(recorder.events()) /
                          (static_cast<double>(warm_up) / 2.0 + double(pairs));
    const std::vector<double> before(off.begin(), off.end() - 1), after(off.begin() + 1, off.end());
    return Json{{"step_cpu_seconds", median(off)},
                {"events_per_step", events},
                {"ratio", ratioOf(on, off)},
                {"against_itself", ratioOf(after, before)},
                {"clock_readings", events * clockReadingSeconds() / median(off)}};
}

}  // namespace

Result<Json> benchWorker(Transport& transport, const std::string& directory, bool quick) {
    if (transport.world().size() != 1)
        return fail(ErrorCode::InvalidInput,
                    "the benchmark is of one rank on one thread, {} were started",
                    transport.world().size());
    PIPER_ASSIGN(Json experts, benchExpertPhase(quick));
    PIPER_ASSIGN(Json step, benchStep(transport, quick));
    PIPER_ASSIGN(Json collecting, benchCollecting(transport, directory, quick));
    return Json{{"format_version", 1},     {"bench", "worker"},
                {"precision", "fp32"},     {"experts", std::move(experts)},
                {"step", std::move(step)}, {"collecting", std::move(collecting)}};
}

}  // namespace piper
