// SPDX-License-Identifier: Apache-2.0
#include "core/validate/measured_run.h"

#include <algorithm>
#include <cmath>

#include "core/cost/kernel_model.h"
#include "core/model/flop_conventions.h"
#include "core/plan/pipeline_shape.h"
#include "core/validate/free_text.h"

namespace piper {
namespace {

/// Reads the cells of one row; an empty required cell or a bad number is an error with its column.
class RowReader {
public:
    RowReader(const CsvTable& table, std::size_t row) : m_table(table), m_row(row) {}

    [[nodiscard]] std::string_view text(std::string_view column) const {
        return m_table.at(m_row, column);
    }
    [[nodiscard]] bool has(std::string_view column) const { return !text(column).empty(); }

    std::int64_t required(std::string_view column) {
        if (has(column)) return positive(column, 1);
        m_missing += (m_missing.empty() ? "" : ", ") + std::string(column);
        return 1;
    }
    std::int64_t positive(std::string_view column, std::int64_t fallback) {
        if (!has(column)) return fallback;
        const Result<std::int64_t> value = parseWhole(text(column));
        if (value.ok() && *value > 0 && *value <= (1 << 24)) return *value;
        note(value.ok()
                 ? fail(ErrorCode::InvalidInput, "{} is not between 1 and {}", *value, 1 << 24)
                 : value.error(),
             column);
        return fallback;
    }
    std::optional<double> measured(std::string_view column) {
        if (!has(column)) return std::nullopt;
        const Result<double> value = parseNumber(text(column));
        if (value.ok() && *value > 0.0) return *value;
        note(value.ok() ? fail(ErrorCode::InvalidInput, "{} is not positive", *value)
                        : value.error(),
             column);
        return std::nullopt;
    }
    template <class T>
    T parsed(std::string_view column, Result<T> value, T fallback) {
        if (value.ok()) return std::move(value).value();
        note(value.error(), column);
        return fallback;
    }
    void note(Error error, std::string_view column) {
        if (!m_error) m_error = std::move(error).at(std::string(column));
    }
    [[nodiscard]] Status finish() {
        if (!m_missing.empty()) return fail(ErrorCode::InvalidInput, "not given: {}", m_missing);
        if (m_error) return *m_error;
        return {};
    }

private:
    const CsvTable& m_table;
    std::size_t m_row;
    std::string m_missing;
    std::optional<Error> m_error;
};

void readLayout(RowReader& in, MeasuredRun& run, std::int64_t world) {
    Layout& l = run.plan.layout;
    l.tp = in.required("tp");
    l.pp = in.required("pp");
    l.cp = in.positive("cp", 1);
    l.ep = in.positive("ep", 1);
    if (!run.plan.model.moe) l.ep = 1;
    l.etp = in.positive("etp", run.plan.framework == Framework::Megatron ? l.tp : 1);
    if (!run.plan.model.moe) l.etp = l.tp;
    l.sp = in.has("sp") ? in.text("sp") == "1"
                        : l.tp > 1 && run.profile->framework != Framework::Plain;
    const std::int64_t rest = l.tp * l.cp * l.pp;
    if (world % rest != 0)
        in.note(fail(ErrorCode::InvalidInput, "{} devices are no multiple of tp {} x cp {} x pp {}",
                     world, l.tp, l.cp, l.pp),
                "n_gpus");
    l.dp = std::max<std::int64_t>(1, world / rest);
}

/// A chunk count that was described: "max (1 layer/chunk)", "interleaved".
std::int64_t readVpp(RowReader& in, const MeasuredRun& run) {
    const std::string_view text = in.text("vpp");
    const std::int64_t pp = run.plan.layout.pp, layers = run.plan.model.num_layers;
    if (mentions(text, "max")) return std::max<std::int64_t>(1, (layers + pp - 1) / pp);
    if (mentions(text, "interleaved")) return 2;
    if (!in.has("vpp") && run.profile->most_chunks && pp > 1 && layers % pp == 0)
        return layers / pp;
    return in.positive("vpp", 1);
}

Status readCluster(RowReader& in, MeasuredRun& run, const ReferenceTables& tables,
                   std::int64_t world) {
    ClusterSpec& c = run.plan.cluster;
    PIPER_ASSIGN(c, tables.cluster(in.text("gpu"), world, in.positive("gpus_per_node", 0)));
    const std::optional<BytesPerSecond> nic =
        parseNicRate(in.text("interconnect"), c.devices_per_node);
    if (nic && c.nodes > 1 && c.levels.size() > 1)
        c.levels.back().bandwidth = c.levels.back().port_bandwidth = *nic;
    return {};
}

/// "HEAD recipe: selective recompute layernorm+moe_act": a recipe's recompute named in the notes.
std::string recomputeInNotes(std::string_view notes) {
    constexpr std::string_view kWord = "recompute ";
    if (!mentions(notes, "recipe:") || mentions(notes, "no recompute")) return {};
    const std::size_t at = notes.find(kWord);
    if (at == std::string_view::npos) return {};
    if (mentions(notes, "full recompute")) {
        const std::optional<double> layers = numberAfter(notes, "block,");
        return layers ? fmt::format("full block {}", *layers) : "full";
    }
    const std::string_view rest = notes.substr(at + kWord.size());
    return std::string(rest.substr(0, rest.find_first_of(",;")));
}

void readBlanks(RowReader& in, MeasuredRun& run) {
    const SourceProfile& profile = *run.profile;
    Plan& plan = run.plan;
    const auto cell = [&](std::string_view column, std::string_view usual) {
        if (in.has(column)) return in.text(column);
        run.assumed.push_back(fmt::format("{} {}", column, usual));
        return usual;
    };
    const std::string noted = recomputeInNotes(run.notes);
    plan.recompute = in.parsed(
        "recompute", parseRecompute(noted.empty() ? cell("recompute", profile.recompute) : noted),
        Recompute{});
    Sharding sharding;
    if (in.has("zero")) {
        sharding = in.parsed("zero", parseSharding(in.text("zero")), sharding);
        plan.zero_stage = sharding.zero_stage;
    } else {
        plan.zero_stage = profile.zero_stage;
        run.assumed.push_back(fmt::format("zero_stage {}", plan.zero_stage));
    }
    Overlap overlap = parseOverlap(in.text("overlap"), profile.overlap);
    if (mentions(run.notes, "ep a2a overlap")) overlap.ep = true;
    if (mentions(run.notes, "tp overlap off")) overlap.tp = false;
    if (mentions(run.notes, "overlap_grad_reduce off")) overlap.dp_grad_reduce = false;
    if (!in.has("overlap")) run.assumed.push_back("overlap of the profile");
    overlap.tp = overlap.tp && plan.layout.tp > 1;
    plan.overlap = overlap;
}

void readSchedule(RowReader& in, MeasuredRun& run) {
    Plan& plan = run.plan;
    const std::optional<ScheduleKind> named =
        in.parsed("overlap", parseSchedule(in.text("overlap")), std::optional<ScheduleKind>());
    plan.layout.vpp = readVpp(in, run);
    if (plan.layout.pp == 1) plan.layout.vpp = 1;
    plan.schedule = plan.layout.vpp > 1 ? ScheduleKind::InterleavedOneF1B
                                        : named.value_or(ScheduleKind::OneF1B);
    plan.optimizer.post_validation = run.profile->post_validation && splitsBackward(plan.schedule);
    const std::int64_t chunks = plan.layout.pp * plan.layout.vpp;
    if (plan.model.num_layers % chunks != 0)
        plan.stage_layers = unevenStageLayers(plan.model.num_layers, chunks);
}

/// What the tables of dims leave out of GPT-3's family; models with gated MLPs are not of it.
void makeGpt(ModelSpec& model, std::int64_t seq_len) {
    if (model.moe || model.dense_mlp != MlpKind::TwoMatrix) return;
    model.norm = NormKind::LayerNorm;
    model.position = PositionKind::Learned;
    model.max_position_embeddings = std::max(model.max_position_embeddings, seq_len);
    model.attention.qkv_bias = model.attention.output_bias = model.mlp_bias = true;
    model.dropout = 0.1;
    model.tie_word_embeddings = true;
}

/// Library of the all-to-all and replayed graphs, in the overlap column or among the notes.
void readDispatcher(RowReader& in, MeasuredRun& run) {
    Plan& plan = run.plan;
    const std::string said = fmt::format("{}; {}", in.text("overlap"), run.notes);
    plan.cuda_graphs = run.profile->cuda_graphs || mentions(said, "cuda graph");
    plan.all_to_all.library = mentions(said, "hybridep")    ? AllToAllLibrary::HybridEp
                              : mentions(said, "deepep")    ? AllToAllLibrary::DeepEp
                              : mentions(said, "alltoall ") ? AllToAllLibrary::Nccl
                              : run.other_gate && run.profile->all_to_all_other_gate
                                  ? *run.profile->all_to_all_other_gate
                                  : run.profile->all_to_all;
}

/// What the notes say of the model: a cut-down proxy's layers, dense layers, a capacity factor.
void readNotes(MeasuredRun& run) {
    ModelSpec& model = run.plan.model;
    run.lora = mentions(run.notes, "lora");
    if (!model.moe) return;
    if (const std::optional<double> dense = numberAfter(run.notes, "dense_layers"))
        for (std::size_t l = 0; l < model.layers.size(); ++l)
            model.layers[l] = static_cast<double>(l) < *dense ? LayerKind::Dense : LayerKind::Moe;
    if (const std::optional<double> factor = numberAfter(run.notes, "capacity factor"))
        if (*factor >= 1.0) run.plan.capacity_factor = *factor;
}

void readMemory(RowReader& in, MeasuredRun& run) {
    const std::optional<double> value = in.measured("mem_gb");
    if (!value) return;
    const std::string_view unit = in.text("mem_unit"), kind = in.text("mem_kind");
    if (unit.starts_with("GiB")) {
        run.memory = gib(*value);
    } else if (unit.starts_with("GB")) {
        run.memory = gb(*value);
    } else {
        in.note(fail(ErrorCode::InvalidInput, "'{}' is no known unit: GiB or GB", unit),
                "mem_unit");
        return;
    }
    run.memory_unit_known = !mentions(unit, "not stated");
    run.memory_kind = kind == "peak_allocated"  ? MeasuredMemory::PeakAllocated
                      : kind == "peak_reserved" ? MeasuredMemory::PeakReserved
                                                : MeasuredMemory::Other;
}

/// Peak of the source's MFU in FLOP/s.
double mfuPeak(const MeasuredRun& run) {
    const Plan& plan = run.plan;
    const bool low = elementBytes(plan.precision).value < 2.0;
    const DeviceGeneration g = deviceGeneration(plan.cluster.device.name);
    const SourceProfile& p = *run.profile;
    const double own = g == DeviceGeneration::Blackwell
                           ? (low ? p.blackwell_fp8_peak : p.blackwell_peak)
                       : g == DeviceGeneration::Hopper ? (low ? p.hopper_fp8_peak : p.hopper_peak)
                                                       : 0.0;
    if (own > 0.0) return own * 1e12;
    const Result<FlopsPerSecond> peak = plan.cluster.device.peakFor(plan.precision);
    return peak.ok() ? peak->value : 0.0;
}

/// The step time from what is published, the most direct first.
void readSpeed(RowReader& in, MeasuredRun& run) {
    const Plan& plan = run.plan;
    const double tokens = static_cast<double>(plan.global_batch_size * plan.seq_len);
    const double devices = static_cast<double>(plan.layout.world());
    const std::optional<double> step = in.measured("step_s"), rate = in.measured("tokens_s_gpu"),
                                tflops = in.measured("tflops_per_gpu"), mfu = in.measured("mfu");
    if (tflops && rate) run.flops_per_token = Flops(*tflops * 1e12 / *rate);
    const double flops = countedFlopsPerToken(run).value * tokens;
    if (step) {
        run.step = Seconds(*step);
        run.step_from = "step_s";
    } else if (rate) {
        run.step = Seconds(tokens / (*rate * devices));
        run.step_from = "tokens_s_gpu";
    } else if (tflops) {
        run.step = Seconds(flops / (*tflops * 1e12 * devices));
        run.step_from = "tflops_per_gpu";
    } else if (const double peak = mfuPeak(run); mfu && peak > 0.0) {
        run.step = Seconds(flops / (*mfu / 100.0 * peak * devices));
        run.step_from = "mfu";
    }
}

void readBatch(RowReader& in, MeasuredRun& run) {
    Plan& plan = run.plan;
    plan.seq_len = in.required("seq");
    plan.global_batch_size = in.required("gbs");
    if (in.has("mbs") || run.profile->micro_batch_size == 0) {
        plan.micro_batch_size = in.required("mbs");
    } else {
        plan.micro_batch_size = run.profile->micro_batch_size;
        run.assumed.push_back(fmt::format("micro_batch_size {}", plan.micro_batch_size));
        run.full_layout = false;
    }
    const std::int64_t round = plan.micro_batch_size * plan.layout.dp;
    if (plan.global_batch_size % round != 0)
        in.note(fail(ErrorCode::InvalidInput, "{} sequences are no multiple of mbs {} x dp {}",
                     plan.global_batch_size, plan.micro_batch_size, plan.layout.dp),
                "gbs");
}

}  // namespace

std::vector<std::int64_t> unevenStageLayers(std::int64_t num_layers, std::int64_t chunks) {
    std::vector<std::int64_t> layers(static_cast<std::size_t>(chunks), num_layers / chunks);
    for (std::int64_t ends = 1; ends <= 3 && chunks > 1; ++ends) {
        if ((num_layers + ends) % chunks != 0) continue;
        std::ranges::fill(layers, (num_layers + ends) / chunks);
        const bool both = ends == 2 || layers.back() < ends;
        if (both) --layers.front();
        layers.back() -= both ? ends - 1 : ends;
        if (layers.back() >= 0 && layers.front() >= 0) return layers;
    }
    // What is left over goes to the middle: the ends hold embedding and loss.
    std::ranges::fill(layers, num_layers / chunks);
    const std::int64_t left = num_layers % chunks;
    for (std::int64_t i = 0; i < left; ++i)
        ++layers[static_cast<std::size_t>((chunks - left) / 2 + i)];
    return layers;
}

Flops countedFlopsPerToken(const MeasuredRun& run) {
    const Plan& plan = run.plan;
    const SourceProfile& profile = *run.profile;
    const bool recomputed = plan.recompute.granularity == RecomputeGranularity::Full;
    const std::string_view name =
        run.lora                                              ? "adapters"
        : recomputed && !profile.flops_recompute.empty()      ? profile.flops_recompute
        : run.other_gate && !profile.flops_other_gate.empty() ? profile.flops_other_gate
                                                              : profile.flops;
    const Result<FlopConvention> convention = findFlopConvention(name);
    PIPER_CHECK(convention.ok());
    return flopTable(plan.model, plan.seq_len, *convention).total();
}

Result<MeasuredRun> readMeasuredRun(const CsvTable& table, std::size_t row,
                                    const ReferenceTables& tables) {
    RowReader in(table, row);
    MeasuredRun run;
    run.line = table.line(row);
    run.source = std::string(in.text("source"));
    run.model = std::string(in.text("model"));
    run.gpu = std::string(in.text("gpu"));
    run.notes = std::string(in.text("notes"));
    run.profile = &profileOf(run.source, run.notes);
    Plan& plan = run.plan;
    plan.framework = run.profile->framework;
    PIPER_ASSIGN(ReferenceTables::NamedModel named, tables.model(run.model));
    plan.model = std::move(named.model);
    run.other_gate = named.other_gate;
    if (!named.names_vocabulary) {
        if (run.profile->vocab_size > 0) plan.model.vocab_size = run.profile->vocab_size;
        run.assumed.push_back(fmt::format("vocab_size {}", plan.model.vocab_size));
    }
    plan.model.mtp_num_layers = named.trains_mtp && run.profile->trains_mtp ? 1 : 0;
    const std::int64_t world = in.required("n_gpus");
    PIPER_TRY(readCluster(in, run, tables, world));
    readLayout(in, run, world);
    readBatch(in, run);
    plan.precision = in.parsed("precision", parsePrecision(in.text("precision")), Precision::Bf16);
    readBlanks(in, run);
    readSchedule(in, run);
    readNotes(run);
    plan.fused_attention = run.profile->fused_attention;
    plan.fused_cross_entropy = run.profile->fused_cross_entropy;
    plan.cluster.device.kernels = run.profile->kernels;
    if (run.profile->bf16_gradients) plan.optimizer.gradients = StateFormat::Bf16;
    plan.fp8_parameters = run.profile->fp8_parameters && elementBytes(plan.precision).value < 2.0;
    if (run.profile->gpt_layers) makeGpt(plan.model, plan.seq_len);
    readDispatcher(in, run);
    if (mentions(in.text("precision"), "pure")) plan.optimizer.master_weights = StateFormat::None;
    if (run.lora) {
        OptimizerChoice& o = plan.optimizer;
        o.gradients = o.master_weights = o.first_moment = o.second_moment = StateFormat::None;
    }
    readSpeed(in, run);
    readMemory(in, run);
    PIPER_TRY(in.finish());
    return run;
}

}  // namespace piper
