// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cmath>

#include "app/files/files.h"
#include "app/piperctl/bench.h"
#include "core/base/json.h"
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

}  // namespace

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
    if (json) {
        Json out = {
            {"format_version", 1}, {"bench", "predict"}, {"plan", file.string()}, {"cores", 1}};
        for (const PredictRate& rate : rates)
            out[std::string(rate.name)] = {{"predictions_per_second", rate.per_second},
                                           {"seconds_each", 1.0 / rate.per_second},
                                           {"step_seconds", rate.step_seconds}};
        printJson(out);
        return 0;
    }
    fmt::print("{} on one core\n", file.filename().string());
    TextTable table({"kind", "predictions/s", "each", "step"});
    for (const PredictRate& rate : rates)
        table.add({std::string(rate.name), fmt::format("{:.0f}", rate.per_second),
                   humanSeconds(Seconds(1.0 / rate.per_second)),
                   humanSeconds(Seconds(rate.step_seconds))});
    fmt::print("{}", table.text());
    return 0;
}

}  // namespace piper::app
