// SPDX-License-Identifier: GPL-3.0-or-later
#include "app/workbench/table_bench.h"

#include <QLineEdit>
#include <QScrollBar>
#include <QTableView>
#include <array>

#include "app/common/parallel.h"
#include "app/workbench/paint_watch.h"
#include "app/workbench/settle.h"
#include "core/search/choices.h"
#include "core/search/enumerate.h"
#include "ui/plots/plans_plot.h"

namespace piper::app {
namespace {

constexpr int kPaintTimeoutMs = 10'000;
constexpr int kScrolls = 60;
constexpr std::array kTyped = {"pp<=4", "ep=8 memory<70", "full", "interleaved mfu>=20",
                               "rank>99999"};

/// Plans of the space that break no rule, from all over it: every `stride`-th.
std::vector<Plan> soundPlans(const SearchSpace& space, std::size_t most, std::size_t stride) {
    const SearchChoices choices(space);
    std::vector<Plan> out;
    std::size_t number = 0;
    forEachPoint(choices, [&](const SearchPoint& point) {
        if (out.size() == most || number++ % stride != 0) return;
        Plan plan = choices.plan(point);
        if (validatePlan(plan).empty()) out.push_back(std::move(plan));
    });
    return out;
}

/// Predicted by the closed form, best first.
std::vector<RankedPlan> predicted(std::vector<Plan> plans) {
    std::vector<std::optional<RankedPlan>> found(plans.size());
    threadedFor()(plans.size(), [&](std::size_t i) {
        Result<Prediction> prediction = predict(plans[i], PredictMode::ClosedForm);
        if (prediction.ok())
            found[i] = RankedPlan{std::move(plans[i]), std::move(prediction).value()};
    });
    std::vector<RankedPlan> out;
    for (auto& one : found)
        if (one) out.push_back(*std::move(one));
    std::ranges::stable_sort(out, std::ranges::greater{},
                             [](const RankedPlan& plan) { return plan.prediction.mfu; });
    return out;
}

Result<std::shared_ptr<const ui::RankedPlans>> plansAround(const Plan& plan, std::size_t count) {
    SearchSpace space;
    space.base = plan;
    constexpr std::size_t kStride = 2;
    std::vector<RankedPlan> found = predicted(soundPlans(space, count, kStride));
    if (found.size() < count)
        return fail(ErrorCode::RuleBroken, "the space of this plan gives {} plans, {} are needed",
                    found.size(), count);
    return std::make_shared<const ui::RankedPlans>(std::move(found));
}

/// The page with what is watched of it.
class TableDrive {
public:
    explicit TableDrive(QWidget& page)
        : m_table(*page.findChild<QTableView*>(QStringLiteral("plans"))),
          m_filter(*page.findChild<QLineEdit*>(QStringLiteral("filter"))) {
        m_painted.add(m_table.viewport());
        m_all_painted.add(m_table.viewport());
        m_all_painted.add(
            page.findChild<ui::PlansPlot*>()->findChild<QWidget*>(QStringLiteral("plot")));
    }

    Result<double> fill(const std::function<void()>& hand_over) {
        return time(m_all_painted, hand_over);
    }
    Result<Latencies> sort() {
        std::vector<double> ms;
        for (int column = 0; column < m_table.model()->columnCount(); ++column)
            for (const Qt::SortOrder order : {Qt::DescendingOrder, Qt::AscendingOrder}) {
                PIPER_ASSIGN(const double one,
                             time(m_painted, [&] { m_table.sortByColumn(column, order); }));
                ms.push_back(one);
            }
        return latencies(std::move(ms));
    }
    Result<Latencies> filter() {
        std::vector<double> ms;
        for (const char* typed : kTyped) {
            const QString text = QString::fromLatin1(typed);
            for (qsizetype letters = 1; letters <= text.size(); ++letters) {
                // A half-written comparison changes nothing but its remark.
                const int before = m_table.model()->rowCount();
                QElapsedTimer clock;
                clock.start();
                m_all_painted.reset();
                m_filter.setText(text.left(letters));
                if (m_table.model()->rowCount() != before && !spinUntil(m_all_painted))
                    return notPainted();
                ms.push_back(milliseconds(clock));
            }
        }
        PIPER_ASSIGN(const double cleared, time(m_all_painted, [&] { m_filter.clear(); }));
        ms.push_back(cleared);
        return latencies(std::move(ms));
    }
    Result<Latencies> scroll() {
        QScrollBar& bar = *m_table.verticalScrollBar();
        std::vector<double> ms;
        for (int i = 1; i <= kScrolls; ++i) {
            // Leaps over all of it, and a page each between them.
            const int to = i % 2 == 0
                               ? bar.value() - bar.pageStep()
                               : static_cast<int>(std::int64_t{bar.maximum()} * i / kScrolls);
            PIPER_ASSIGN(const double one, time(m_painted, [&] { bar.setValue(to); }));
            ms.push_back(one);
        }
        return latencies(std::move(ms));
    }

private:
    static Error notPainted() {
        return fail(ErrorCode::External, "the table was not painted in {} ms", kPaintTimeoutMs);
    }
    static bool spinUntil(const PaintWatch& painted) {
        return app::spinUntil([&] { return painted.all(); }, kPaintTimeoutMs);
    }
    static Result<double> time(PaintWatch& painted, const std::function<void()>& action) {
        painted.reset();
        QElapsedTimer clock;
        clock.start();
        action();
        if (!spinUntil(painted)) return notPainted();
        return milliseconds(clock);
    }

    QTableView& m_table;
    QLineEdit& m_filter;
    PaintWatch m_painted, m_all_painted;
};

}  // namespace

Result<TableBench> benchTable(ui::MainWindow& window, ui::Workbench& workbench, std::size_t plans) {
    window.showPage(ui::PageId::Explore);
    PIPER_ASSIGN(std::shared_ptr<const ui::RankedPlans> ranked,
                 plansAround(workbench.plan.plan(), plans));
    if (!settle(window, workbench.executor, kPaintTimeoutMs))
        return fail(ErrorCode::External, "the explore page did not settle");
    TableDrive drive(*window.page(ui::PageId::Explore));
    TableBench out;
    out.plans = ranked->size();
    PIPER_ASSIGN(out.fill_ms, drive.fill([&] {
        workbench.search.plans().setPlans(std::move(ranked));
        Q_EMIT workbench.search.changed();
    }));
    PIPER_ASSIGN(out.sort, drive.sort());
    PIPER_ASSIGN(out.filter, drive.filter());
    PIPER_ASSIGN(out.scroll, drive.scroll());
    out.width = window.width();
    out.height = window.height();
    return out;
}

std::string benchJson(const TableBench& bench) {
    const Json json = {{"format_version", 1},
                       {"bench", "table"},
                       {"width", bench.width},
                       {"height", bench.height},
                       {"plans", bench.plans},
                       {"fill_ms", bench.fill_ms},
                       {"sort", latencyJson(bench.sort, "sorts")},
                       {"filter", latencyJson(bench.filter, "letters")},
                       {"scroll", latencyJson(bench.scroll, "moves")}};
    return json.dump(2);
}

}  // namespace piper::app
