// SPDX-License-Identifier: GPL-3.0-or-later
#include <gtest/gtest.h>

#include <QFileInfo>
#include <QLocale>
#include <cmath>
#include <limits>

#include "tests/support/paths.h"
#include "ui/models/comparison_model.h"
#include "ui/models/export_view_model.h"
#include "ui/models/phase_colours.h"
#include "ui/models/ranked_plans_model.h"
#include "ui/models/run_history_model.h"
#include "ui/models/session_view_model.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

class PlainLocale : public ::testing::Test {
protected:
    PlainLocale() { QLocale::setDefault(QLocale::c()); }
};

/// Distance of two colours in CIE Lab, after what a reader without red or green receptors sees.
struct Lab {
    double l, a, b;
};

Lab toLab(double r, double g, double b) {
    const auto f = [](double t) { return t > 0.008856 ? std::cbrt(t) : 7.787 * t + 16.0 / 116.0; };
    const double x = f((0.4124 * r + 0.3576 * g + 0.1805 * b) / 0.9505);
    const double y = f(0.2126 * r + 0.7152 * g + 0.0722 * b);
    const double z = f((0.0193 * r + 0.1192 * g + 0.9505 * b) / 1.0890);
    return {116 * y - 16, 500 * (x - y), 200 * (y - z)};
}

double linear(double v) {
    return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
}

/// Machado, Oliveira and Fernandes 2009, severity 1: [normal, protanopia, deuteranopia].
Lab seen(const QColor& c, int vision) {
    static constexpr double m[3][9] = {{1, 0, 0, 0, 1, 0, 0, 0, 1},
                                       {0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216,
                                        -0.003882, -0.048116, 1.051998},
                                       {0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413,
                                        -0.011820, 0.042940, 0.968881}};
    const double r = linear(c.redF()), g = linear(c.greenF()), b = linear(c.blueF());
    const double* k = m[vision];
    const auto clip = [](double v) { return std::clamp(v, 0.0, 1.0); };
    return toLab(clip(k[0] * r + k[1] * g + k[2] * b), clip(k[3] * r + k[4] * g + k[5] * b),
                 clip(k[6] * r + k[7] * g + k[8] * b));
}

double distance(const QColor& a, const QColor& b, int vision) {
    const Lab x = seen(a, vision), y = seen(b, vision);
    return std::hypot(x.l - y.l, x.a - y.a, x.b - y.b);
}

TEST(PhaseColours, NeighboursInAStepDifferForEveryReader) {
    // Phases that stand side by side on a lane or in a legend.
    const std::pair<Phase, Phase> neighbours[] = {
        {Phase::Attention, Phase::Router},   {Phase::Attention, Phase::Expert},
        {Phase::Router, Phase::Expert},      {Phase::Dispatch, Phase::Combine},
        {Phase::Expert, Phase::HeadLoss},    {Phase::Expert, Phase::Dispatch},
        {Phase::Expert, Phase::Combine},     {Phase::TpComm, Phase::CpComm},
        {Phase::Optimizer, Phase::HeadLoss}, {Phase::PpComm, Phase::DpComm},
        {Phase::Embedding, Phase::Router},   {Phase::Optimizer, Phase::Attention}};
    for (const bool dark : {false, true})
        for (int vision = 0; vision < 3; ++vision)
            for (const auto& [a, b] : neighbours)
                EXPECT_GT(distance(phaseColour(a, dark), phaseColour(b, dark), vision), 10.0)
                    << toText(a) << " and " << toText(b) << ", vision " << vision << ", dark "
                    << dark;
}

TEST(PhaseColours, TextOnAColourIsReadable) {
    for (std::size_t i = 0; i < kNumPhases; ++i)
        for (const bool dark : {false, true}) {
            const QColor fill = phaseColour(static_cast<Phase>(i), dark);
            const auto luminance = [](const QColor& c) {
                return 0.2126 * linear(c.redF()) + 0.7152 * linear(c.greenF()) +
                       0.0722 * linear(c.blueF());
            };
            const double a = luminance(fill), b = luminance(textOn(fill));
            EXPECT_GE((std::max(a, b) + 0.05) / (std::min(a, b) + 0.05), 3.0)
                << toText(static_cast<Phase>(i)) << " dark " << dark;
        }
}

TEST_F(PlainLocale, NumbersCarryUnits) {
    EXPECT_EQ(percentText(0.4137), QStringLiteral("41.4 %"));
    EXPECT_EQ(differenceText(2.0, 2.5), QStringLiteral("+25.0 %"));
    EXPECT_EQ(differenceText(2.0, 1.5), QStringLiteral("-25.0 %"));
    EXPECT_EQ(differenceText(0.0, 1.0), QStringLiteral("–"));
    EXPECT_EQ(secondsText(Seconds(0.0123)), QStringLiteral("12.3 ms"));
    EXPECT_EQ(secondsText(Seconds(45e-6)), QStringLiteral("45.0 µs"));
    EXPECT_EQ(bytesText(gib(79.6)), QStringLiteral("79.6 GiB"));
    EXPECT_EQ(parametersText(6.92e9), QStringLiteral("6.92 B"));
}

Comparison exampleComparison() {
    Comparison c;
    c.phase_seconds = {{"expert", 0.010, 0.012, 5, 5},
                       {"dispatch", 0.004, 0.002, 5, 5},
                       {"router", 0.0, 0.0, 0, 0}};
    c.phase_bytes = {{"dispatch", 4e9, 4e9, 5, 5}};
    c.memory_bytes = {{"weights", 0x1p30, 0x1p30, 1, 1}};
    return c;
}

TEST_F(PlainLocale, AComparisonIsATableWithDifferences) {
    ComparisonModel model;
    model.setRuns({std::make_shared<const Comparison>(exampleComparison()), 2,
                   QStringLiteral("Modelled"), QStringLiteral("Measured")});
    EXPECT_EQ(tableText(model),
              QStringLiteral("Quantity\tPhase or term\tModelled\tMeasured\tB − A\t(B − A) ÷ A\n"
                             "Time\tExpert\t10.0 ms\t12.0 ms\t+2.00 ms\t+20.0 %\n"
                             "\tDispatch\t4.00 ms\t2.00 ms\t-2.00 ms\t-50.0 %\n"
                             "Memory\tWeights\t1.00 GiB\t1.00 GiB\t0 B\t+0.0 %\n"
                             "Bytes sent\tDispatch\t3.73 GiB\t3.73 GiB\t0 B\t+0.0 %\n"
                             "Bandwidth\tDispatch\t500 GB/s\t1.00 TB/s\t+500 GB/s\t+100.0 %\n"));
}

TEST_F(PlainLocale, HistoryRowsNameOutcomeAndUnknowns) {
    RunHistoryModel model;
    RunSummary run;
    run.name = QStringLiteral("tiny");
    run.outcome = RunOutcome::Failed;
    run.outcome_reason = QStringLiteral("rank 2 died in step 3");
    run.ranks = 4;
    run.steps = 3;
    run.last_loss = std::numeric_limits<double>::quiet_NaN();
    run.labels = {"slow disk", {"base", "fp8"}};
    model.setRuns({run});
    EXPECT_EQ(tableText(model).section(u'\n', 1, 1),
              QStringLiteral("tiny\tmeasured\tfailed\t\t\t4\t3\t–\t–\tbase, fp8\tslow disk"));
    EXPECT_EQ(model.data(model.index(0, 0), Qt::ToolTipRole).toString(), run.outcome_reason);
    EXPECT_NE(model.find(QStringLiteral("tiny")), nullptr);
    EXPECT_EQ(model.find(QStringLiteral("other")), nullptr);
}

TEST(SaveExport, WritesEveryFileAndKeepsScriptsExecutable) {
    piper::test::TemporaryDirectory directory;
    Export files;
    files.files = {{"run.sh", "#!/bin/sh\n", true}, {"plan.json", "{}\n", false}};
    const QString into = QString::fromStdString((directory.path() / "out").string());
    ASSERT_TRUE(saveExport(files, into).ok());
    EXPECT_EQ(piper::test::readText(directory.path() / "out/plan.json"), "{}\n");
    EXPECT_TRUE(QFileInfo(into + QStringLiteral("/run.sh")).isExecutable());
    EXPECT_FALSE(QFileInfo(into + QStringLiteral("/plan.json")).isExecutable());
}

TEST(SaveExport, AnUnwritableDirectoryIsNamed) {
    Export files;
    files.files = {{"a", "b", false}};
    const Status status = saveExport(files, QStringLiteral("/proc/nowhere"));
    ASSERT_FALSE(status.ok());
    EXPECT_NE(status.error().message.find("/proc/nowhere"), std::string::npos);
}

TEST(ManualExecutorTest, ANewerRequestReplacesTheWaitingOneAndStopsTheRunningOne) {
    ManualExecutor executor;
    std::string order;
    const auto work = [&](const char* name) {
        return [&order, name](const Executor::Context&) -> Executor::OnWindow {
            order += name;
            return [&order, name] { order += std::string(name) + "!"; };
        };
    };
    executor.submit(QStringLiteral("t"), Executor::Lane::Interactive, work("a"));
    executor.submit(QStringLiteral("t"), Executor::Lane::Interactive, work("b"));
    executor.submit(QStringLiteral("u"), Executor::Lane::Background, work("c"));
    executor.runOne([&] { executor.cancel(QStringLiteral("t")); });
    executor.runAll();
    EXPECT_EQ(order, "bcc!");
    EXPECT_TRUE(executor.idle());
}

}  // namespace
}  // namespace piper::ui
