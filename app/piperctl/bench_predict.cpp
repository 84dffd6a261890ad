// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>

#include "app/files/files.h"
#include "app/piperctl/bench.h"
#include "core/base/json.h"
#include "core/base/sample.h"
#include "core/predict/predict.h"

namespace piper::app {
namespace {

using Clock = std::chrono::steady_clock;

/// One way to ask for a prediction and how often a core answers.
struct PredictRate {
    std::string_view name;
    PredictMode mode;
    PredictDetail detail;
    double per_second = 0.0;
    double step_seconds = 0.0;
};

/// The answer must be the same each time and be a time at all.
Status checkAnswer(const Plan& plan, PredictRate& rate) {
    PIPER_ASSIGN(const Prediction first, predict(plan, rate.mode, rate.detail));
    PIPER_ASSIGN(const Prediction again, predict(plan, rate.mode, rate.detail));
    rate.step_seconds = first.step.value;
    if (!std::isfinite(first.step.value) || first.step.value <= 0.0 || first.step != again.step)
        return fail(ErrorCode::External, "{} answers {} s and then {} s", rate.name,
                    first.step.value, again.step.value);
    return {};
}

void timeAnswers(const Plan& plan, double seconds, PredictRate& rate) {
    std::int64_t count = 0;
    double passed = 0.0;
    const Clock::time_point begin = Clock::now();
    while (passed < seconds) {
        for (int i = 0; i < 16; ++i) (void)predict(plan, rate.mode, rate.detail);
        count += 16;
        passed = std::chrono::duration<double>(Clock::now() - begin).count();
    }
    rate.per_second = static_cast<double>(count) / passed;
}

/// One expert width after the other, each asked for once.
Result<SliderTimes> timeMoves(Plan plan, std::string detail, PredictDetail how) {
    constexpr std::size_t kMoves = 200;
    constexpr std::int64_t kTick = 64;
    std::vector<double> seconds;
    Seconds last;
    for (std::size_t i = 0; i < kMoves; ++i) {
        plan.model.moe->moe_ffn_hidden_size += kTick;
        const Clock::time_point begin = Clock::now();
        PIPER_ASSIGN(const Prediction p, predict(plan, PredictMode::Simulated, how));
        seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
        if (p.step == last)
            return fail(ErrorCode::External, "experts of width {} take as long as narrower ones",
                        plan.model.moe->moe_ffn_hidden_size);
        last = p.step;
    }
    return SliderTimes{std::move(detail),
                       seconds.size(),
                       Seconds(median(seconds)),
                       Seconds(quantile(seconds, 0.1)),
                       Seconds(quantile(seconds, 0.9)),
                       Seconds(std::ranges::max(seconds))};
}

}  // namespace

Result<std::vector<SliderTimes>> timeSlider() {
    PIPER_ASSIGN(const std::filesystem::path file, bundledExample("plans/mixtral-8x7b-h100.json"));
    PIPER_ASSIGN(Plan plan, loadPlan(file));
    plan.layout = {.pp = 16, .ep = 4, .dp = 4};
    plan.global_batch_size = 128 * plan.layout.dp * plan.micro_batch_size;
    std::vector<SliderTimes> out;
    for (const auto& [name, how] : {std::pair("step", PredictDetail::StepOnly),
                                    std::pair("bottlenecks", PredictDetail::WithBottlenecks)}) {
        PIPER_ASSIGN(SliderTimes times, timeMoves(plan, name, how));
        out.push_back(std::move(times));
    }
    return out;
}

Json sliderJson(const std::vector<SliderTimes>& times) {
    Json out = Json::object();
    for (const SliderTimes& t : times)
        out[t.detail] = {{"n", t.n},
                         {"median_seconds", t.median.value},
                         {"p10_seconds", t.p10.value},
                         {"p90_seconds", t.p90.value},
                         {"max_seconds", t.most.value}};
    return out;
}

std::string sliderText(const std::vector<SliderTimes>& times) {
    TextTable table({"slider move, pp 16, 128 micro-batches", "n", "median", "p10", "p90", "max"});
    for (const SliderTimes& t : times)
        table.add({"simulated, " + t.detail, std::to_string(t.n), humanSeconds(t.median),
                   humanSeconds(t.p10), humanSeconds(t.p90), humanSeconds(t.most)});
    return table.text();
}

Outcome benchPredict(const BenchOptions& options, bool json) {
    std::filesystem::path file = options.plan;
    if (options.plan.empty()) {
        PIPER_ASSIGN(file, bundledExample("plans/mixtral-8x7b-h100.json"));
    }
    PIPER_ASSIGN(const Plan plan, loadPlan(file));
    PredictRate rates[] = {
        {"closed_form", PredictMode::ClosedForm, PredictDetail::StepOnly},
        {"simulated", PredictMode::Simulated, PredictDetail::StepOnly},
        {"with_bottlenecks", PredictMode::Simulated, PredictDetail::WithBottlenecks},
    };
    for (PredictRate& rate : rates) {
        PIPER_TRY(checkAnswer(plan, rate));
        timeAnswers(plan, options.seconds, rate);
    }
    PIPER_ASSIGN(const std::vector<SliderTimes> slider, timeSlider());
    if (json) {
        Json out = {
            {"format_version", 1}, {"bench", "predict"}, {"plan", file.string()}, {"cores", 1}};
        for (const PredictRate& rate : rates)
            out[std::string(rate.name)] = {{"predictions_per_second", rate.per_second},
                                           {"seconds_each", 1.0 / rate.per_second},
                                           {"step_seconds", rate.step_seconds}};
        out["slider"] = sliderJson(slider);
        printJson(out);
        return 0;
    }
    fmt::print("{} on one core\n", file.filename().string());
    TextTable table({"kind", "predictions/s", "each", "step"});
    for (const PredictRate& rate : rates)
        table.add({std::string(rate.name), fmt::format("{:.0f}", rate.per_second),
                   humanSeconds(Seconds(1.0 / rate.per_second)),
                   humanSeconds(Seconds(rate.step_seconds))});
    fmt::print("{}{}", table.text(), sliderText(slider));
    return 0;
}

}  // namespace piper::app
