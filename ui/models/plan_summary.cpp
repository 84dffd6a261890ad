// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/plan_summary.h"

#include <QLocale>
#include <algorithm>

#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

using Format = QString (*)(double);

QString asPercent(double v) {
    return percentText(v);
}
QString asSeconds(double v) {
    return secondsText(Seconds(v));
}
QString asCount(double v) {
    return QLocale().toString(v, 'f', v < 100 ? 1 : 0);
}

/// "34.5 – 64.4 %": the unit once where both ends have the same.
QString rangeText(double low, double high, Format format) {
    QString from = format(low);
    const QString to = format(high);
    const QString unit = to.section(u' ', 1);
    if (!unit.isEmpty() && from.endsWith(u' ' + unit)) from.chop(unit.size() + 1);
    return from + QStringLiteral(" – ") + to;
}

Metric withEvidence(Metric metric, const Prediction& prediction, const char* key, Format format) {
    const auto found = prediction.evidence.find(key);
    if (found == prediction.evidence.end()) return metric;
    const Evidence& e = found->second;
    metric.evidence = evidenceText(e.kind);
    if (e.extrapolated) metric.evidence += QStringLiteral(", extrapolated");
    if (e.low != 0.0 || e.high != 0.0)
        metric.detail = (rangeText(e.low, e.high, format) + u' ' + metric.detail).trimmed();
    return metric;
}

QString verdictText(FitVerdict verdict) {
    switch (verdict) {
        case FitVerdict::Fits:
            return QStringLiteral("fits");
        case FitVerdict::Tight:
            return QStringLiteral("tight");
        case FitVerdict::DoesNotFit:
            return QStringLiteral("does not fit");
    }
    return {};
}

Metric memoryMetric(const Prediction& p) {
    const MemoryPrediction& m = p.memory;
    Metric out{QStringLiteral("memory"),
               QStringLiteral("Peak memory"),
               bytesText(m.peak),
               QStringLiteral("of %1 · %2 · stage %3")
                   .arg(bytesText(m.capacity), verdictText(m.verdict))
                   .arg(m.peak_stage.value),
               {},
               QStringLiteral("Largest sum of all memory terms over the stages, against the "
                              "capacity of one device."),
               m.verdict == FitVerdict::DoesNotFit};
    if (!m.peak_operation.empty())
        out.definition += QStringLiteral(" Reached in: ") + text(m.peak_operation);
    return out;
}

}  // namespace

std::vector<Metric> planMetrics(const Plan& plan, const Prediction& p) {
    const auto metric = [](const char* id, const char* label, QString value, QString detail,
                           QString definition) {
        return Metric{QString::fromLatin1(id),
                      QString::fromLatin1(label),
                      std::move(value),
                      std::move(detail),
                      {},
                      std::move(definition),
                      false};
    };
    const QString devices = QStringLiteral("%1 devices").arg(plan.layout.world());
    const Seconds exposed = exposedTotal(p);
    return {
        withEvidence(
            metric("mfu", "MFU", asPercent(p.mfu), {},
                   QStringLiteral("Model FLOPs ÷ (step time × %1 × dense peak %2/s). HFU, which "
                                  "counts recompute: %3.")
                       .arg(devices, flopsText(Flops(p.peak_per_device.value)), asPercent(p.hfu))),
            p, "mfu", asPercent),
        withEvidence(metric("step_seconds", "Step time", secondsText(p.step), {},
                            QStringLiteral("One optimizer step: %1 micro-batches of %2 sequences "
                                           "on each replica.")
                                .arg(plan.numMicroBatches())
                                .arg(plan.micro_batch_size)),
                     p, "step_seconds", asSeconds),
        withEvidence(
            metric("tokens_per_second_per_device", "Throughput",
                   asCount(p.tokens_per_second_per_device) + QStringLiteral(" tokens/s"),
                   QStringLiteral("per device"),
                   QStringLiteral("Tokens of the global batch ÷ (step time × %1).").arg(devices)),
            p, "tokens_per_second_per_device", asCount),
        memoryMetric(p),
        withEvidence(metric("bubble_fraction", "Bubble", asPercent(p.bubble_fraction),
                            QStringLiteral("of the step"),
                            QStringLiteral("Share of the step in which a stage's compute lane "
                                           "waits, mean over stages.")),
                     p, "bubble_fraction", asPercent),
        metric("exposed_seconds", "Exposed comm.", secondsText(exposed),
               QStringLiteral("%1 of the step").arg(percentText(exposed / p.step)),
               QStringLiteral("Communication that no compute of the same rank hides, mean over "
                              "stages.")),
    };
}

QString bottleneckText(const Prediction& prediction) {
    if (!prediction.bottleneck_sentence.empty()) return text(prediction.bottleneck_sentence);
    if (prediction.bottlenecks.empty()) return QStringLiteral("No bottleneck stands out.");
    const Bottleneck& b = prediction.bottlenecks.front();
    return QStringLiteral("Limited by %1: %2 of the step; %3 without it.")
        .arg(text(toText(b.kind)).replace(u'_', u' '), percentText(b.share_of_step, 0),
             secondsText(b.step_without_it));
}

Seconds exposedTotal(const Prediction& prediction) {
    Seconds sum;
    for (const Seconds s : prediction.exposed) sum += s;
    return sum;
}

std::vector<PhaseShare> phaseShares(const Prediction& prediction) {
    std::vector<PhaseShare> out;
    for (std::size_t i = 0; i < kNumPhases; ++i) {
        const Seconds time = prediction.phase[i];
        if (time.value <= 0) continue;
        out.push_back({static_cast<Phase>(i), time, prediction.exposed[i],
                       prediction.step.value > 0 ? time / prediction.step : 0.0});
    }
    std::stable_sort(out.begin(), out.end(),
                     [](const PhaseShare& a, const PhaseShare& b) { return a.time > b.time; });
    return out;
}

}  // namespace piper::ui
