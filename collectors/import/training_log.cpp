// SPDX-License-Identifier: Apache-2.0
// Logs of training programs, line by line; each program writes its own words for the same numbers.
#include <cmath>

#include "collectors/import/imported.h"
#include "collectors/import/text_lines.h"
#include "core/run/time_range.h"

namespace piper {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kLongestStep = 1e6;  ///< seconds

/// What a program calls the numbers of a step; the first word found counts.
struct StepWords {
    std::string_view program;
    std::vector<std::string_view> step, milliseconds, seconds, loss, gradient_norm,
        samples_per_second;
};

/// A line of these is a step: it has a step number and a time, or a loss.
const std::vector<StepWords>& stepWords() {
    static const std::vector<StepWords> words = {
        {"megatron",
         {"iteration "},
         {"elapsed time per iteration (ms)"},
         {},
         {"lm loss"},
         {"grad norm"},
         {"samples per second", "SPS"}},
        {"deepspeed",
         {"steps:", "step=", "step "},
         {},
         {"iter time (s)"},
         {"loss:", "loss "},
         {},
         {"samples/sec"}},
        {"torchtitan", {"step:"}, {}, {}, {"loss:"}, {"grad_norm"}, {}},
    };
    return words;
}

bool first(std::string_view line, const std::vector<std::string_view>& labels, double& value) {
    for (std::string_view label : labels)
        if (numberAfter(line, label, value)) return true;
    return false;
}

/// A number that is summed over lines, for its mean.
struct Mean {
    double sum = 0.0;
    std::int64_t count = 0;
    void add(double v) {
        sum += v;
        ++count;
    }
};

class LogReader {
public:
    void line(std::string_view line) {
        ++m_lines;
        readMemory(line);
        readProfile(line);
        for (const StepWords& words : stepWords())
            if (readStep(line, words)) return;
    }
    [[nodiscard]] bool found() const { return !m_rank.steps.empty(); }
    [[nodiscard]] ImportedRun finish() &&;

private:
    bool readStep(std::string_view line, const StepWords& words);
    void readRates(std::string_view line);
    void readMemory(std::string_view line);
    void readProfile(std::string_view line);
    void highest(const std::string& counter, double value);

    RankTimeline m_rank;
    std::string m_program;
    std::map<std::string, Mean> m_means;
    std::map<std::string, double> m_peaks;
    std::int64_t m_lines = 0, m_now_ns = 0, m_without_time = 0;
};

bool LogReader::readStep(std::string_view line, const StepWords& words) {
    double step = 0.0, time = 0.0, value = 0.0;
    if (!first(line, words.step, step) || std::abs(step) > 1e9) return false;
    bool timed = first(line, words.milliseconds, time);
    if (timed) time /= 1e3;
    if (!timed) timed = first(line, words.seconds, time);
    StepRecord record;
    record.loss = std::nan("");
    if (first(line, words.loss, value)) record.loss = value;
    double rate = 0.0;
    const bool has_rate = numberAfter(line, "tps", rate) && words.program == "torchtitan";
    if (!timed && std::isnan(record.loss)) return false;
    if (words.program == "torchtitan" && !has_rate) return false;
    if (first(line, words.gradient_norm, value)) record.gradient_norm = value;
    record.step = static_cast<std::int32_t>(step);
    record.start_ns = m_now_ns;
    if (!timed || time < 0.0 || time > kLongestStep ||
        !inTimeRange(m_now_ns + std::llround(time * 1e9))) {
        ++m_without_time;
        time = 0.0;
    }
    m_now_ns += std::llround(time * 1e9);
    record.end_ns = m_now_ns;
    m_rank.steps.push_back(record);
    if (m_program.empty()) m_program = words.program;
    if (first(line, words.samples_per_second, value)) m_means["samples_per_second"].add(value);
    if (has_rate) m_means["tokens_per_second_per_device"].add(rate);
    if (numberAfter(line, "moe loss", value)) m_means["moe_loss"].add(value);
    readRates(line);
    return true;
}

void LogReader::readRates(std::string_view line) {
    double value = 0.0;
    for (std::string_view label :
         {"throughput per GPU (TFLOP/s/GPU)", "TFLOPs", "tflops", "TFLOPS"})
        if (numberAfter(line, label, value)) {
            m_means["tflops_per_device"].add(value);
            break;
        }
    if (numberAfter(line, "mfu", value)) m_means["mfu_pct"].add(value);
}

void LogReader::highest(const std::string& counter, double value) {
    const auto [it, fresh] = m_peaks.try_emplace(counter, value);
    if (!fresh) it->second = std::max(it->second, value);
}

void LogReader::readMemory(std::string_view line) {
    double value = 0.0;
    if (line.find("memory (MB)") != std::string_view::npos) {
        // "[Rank 0] (after 2 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | ..."
        if (numberAfter(line, "max allocated", value))
            highest("memory.max_allocated_bytes", value * kMiB);
        if (numberAfter(line, "max reserved", value))
            highest("memory.max_reserved_bytes", value * kMiB);
    }
    if (numberAfter(line, "MaxMemAllocated", value))
        highest("memory.max_allocated_bytes", value * kMiB * 1024.0);
    if (numberAfter(line, "Overall Peak Reserved", value))
        highest("memory.max_reserved_bytes", value * kMiB * 1024.0);
    if (line.find("GiB(") != std::string_view::npos && numberAfter(line, "memory", value))
        highest("memory.max_reserved_bytes", value * kMiB * 1024.0);
}

/// Lines of the X-MoE profile: milliseconds of the parts of a layer.
void LogReader::readProfile(std::string_view line) {
    if (line.find("1st_a2a") == std::string_view::npos &&
        line.find("qkv_gemm") == std::string_view::npos)
        return;
    double value = 0.0;
    for (const std::string label :
         {"1st_a2a", "experts", "2nd_a2a", "qkv_gemm", "attn_gemm", "out_gemm"})
        if (numberAfter(line, label, value))
            m_means["profile." + label + "_milliseconds"].add(value);
}

ImportedRun LogReader::finish() && {
    ImportedRun out;
    out.format = "training-log";
    m_rank.rank = RankId(0);
    for (const auto& [name, mean] : m_means)
        m_rank.counters[name] = fmt::format("{}", mean.sum / static_cast<double>(mean.count));
    for (const auto& [name, value] : m_peaks) m_rank.counters[name] = fmt::format("{:.0f}", value);
    m_rank.counters["log_lines"] = fmt::format("{}", m_lines);
    out.counters.add("step_without_time", ImportSeverity::Info, m_without_time);
    out.run.notes["program"] = m_program;
    out.run.ranks.push_back(std::move(m_rank));
    return out;
}

}  // namespace

Result<ImportedRun> importTrainingLog(const std::filesystem::path& path) {
    LogReader reader;
    PIPER_ASSIGN(const std::string fault,
                 eachLine(path, [&](std::int64_t, std::string_view line) { reader.line(line); }));
    if (!reader.found()) {
        Error error = fail(ErrorCode::InvalidInput, "holds no training step");
        error.hint = "known are the step lines of Megatron-LM, DeepSpeed, torchtitan and X-MoE";
        return std::move(error).at(path.string());
    }
    ImportedRun out = std::move(reader).finish();
    if (!fault.empty()) out.counters.add("source_damaged", ImportSeverity::Error, 1, fault);
    return out;
}

}  // namespace piper
