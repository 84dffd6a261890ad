// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/search_view_model.h"

#include <QElapsedTimer>
#include <QStringList>
#include <cmath>

#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

constexpr int kProgressEveryMs = 50;
const QString kTopic = QStringLiteral("search");

Result<SearchResult> runSearch(const SearchSpace& space, const ParallelFor& parallel_for,
                               const Executor::Context& context,
                               const std::function<void(const SearchProgress&)>& report) {
    QElapsedTimer total;
    total.start();
    QElapsedTimer since_report;
    since_report.start();
    Result<SearchResult> result =
        searchPlans(space, parallel_for, context.stop, [&](const SearchProgress& p) {
            if (since_report.elapsed() < kProgressEveryMs) return;
            since_report.restart();
            report(p);
        });
    if (result.ok()) result->seconds = static_cast<double>(total.nsecsElapsed()) * 1e-9;
    return result;
}

QString answerText(const Result<WhyNot>& answer) {
    if (!answer.ok()) return errorText(answer.error());
    QString out = text(answer->layout) + QStringLiteral(": ") + text(answer->message);
    if (answer->verdict == WhyNotVerdict::Slower) {
        QStringList terms;
        for (const WhyNotTerm& term : answer->terms)
            terms << QStringLiteral("%1%2 %3").arg(
                term.seconds < 0 ? QStringLiteral("−") : QStringLiteral("+"),
                secondsText(Seconds(std::abs(term.seconds))), text(term.name));
        out += QStringLiteral(". In all: ") + terms.join(QStringLiteral(", "));
    }
    if (answer->fixes.empty()) return out;
    QStringList fixes;
    for (const std::string& fix : answer->fixes) fixes << text(fix);
    return out + QStringLiteral(". What would do: ") + fixes.join(QStringLiteral("; "));
}

}  // namespace

void SearchViewModel::askWhyNot(const Plan& base, const QString& asked) {
    const bool searched = m_plans.rowCount() > 0;
    SearchSpace space = m_space;
    if (!searched) space.base = base;
    std::optional<RankedPlan> best;
    if (searched) best = m_plans.planAt(0);
    m_executor.submit(
        QStringLiteral("why-not"), Executor::Lane::Interactive,
        [space = std::move(space), best = std::move(best), words = asked.toStdString(),
         this](const Executor::Context&) -> Executor::OnWindow {
            const Result<Plan> plan = askedPlan(space, words);
            const Result<WhyNot> answer = plan.ok() ? whyNot(space, *plan, best ? &*best : nullptr)
                                                    : Result<WhyNot>(plan.error());
            return [said = answerText(answer), this] {
                m_why_not = said;
                Q_EMIT answered();
            };
        });
}

SearchViewModel::SearchViewModel(Executor& executor, QObject* parent)
    : QObject(parent),
      m_executor(executor),
      m_status(QStringLiteral("Press Search to rank the plans of this model on this cluster.")) {}

void SearchViewModel::start(const Plan& base, std::vector<std::string> fixed, Objective objective,
                            std::size_t top) {
    SearchSpace space;
    space.base = base;
    space.fixed = std::move(fixed);
    space.objective = objective;
    space.top = top;
    m_asked = space;
    m_running = true;
    m_fraction = 0.0;
    m_status = QStringLiteral("Searching…");
    m_executor.submit(
        kTopic, Executor::Lane::Long,
        [space = std::move(space), parallel_for = m_parallel_for,
         this](const Executor::Context& context) -> Executor::OnWindow {
            const auto find = [&]() -> Result<Found> {
                PIPER_ASSIGN(SearchResult result,
                             runSearch(space, parallel_for, context, [&](const SearchProgress& p) {
                                 const double best =
                                     p.best != nullptr ? p.best->prediction.mfu : 0.0;
                                 context.post([this, done = p.done, total = p.total, best] {
                                     progress(done, total, best);
                                 });
                             }));
                auto plans = std::make_shared<const RankedPlans>(std::exchange(result.plans, {}));
                return Found{std::move(result), std::move(plans)};
            };
            auto found = std::make_shared<Result<Found>>(find());
            return [found, this] { finish(std::move(*found)); };
        });
    Q_EMIT changed();
}

void SearchViewModel::cancel() {
    if (!m_running) return;
    m_executor.cancel(kTopic);
    m_running = false;
    m_status = QStringLiteral("Search cancelled.");
    Q_EMIT changed();
}

void SearchViewModel::progress(std::int64_t done, std::int64_t total, double best_mfu) {
    m_fraction = total > 0 ? static_cast<double>(done) / static_cast<double>(total) : 0.0;
    m_status =
        QStringLiteral("%1 of %2 plans")
            .arg(countText(static_cast<double>(done)), countText(static_cast<double>(total)));
    if (best_mfu > 0) m_status += QStringLiteral(", best MFU %1").arg(percentText(best_mfu));
    Q_EMIT changed();
}

void SearchViewModel::finish(Result<Found> found) {
    m_running = false;
    m_fraction = 1.0;
    if (!found.ok()) {
        m_status = errorText(found.error());
        Q_EMIT changed();
        return;
    }
    SearchResult& result = found->result;
    m_status = QStringLiteral("%1 plans evaluated in %2, %3 feasible, the best %4 shown.")
                   .arg(countText(static_cast<double>(result.evaluated)),
                        secondsText(Seconds(result.seconds)),
                        countText(static_cast<double>(result.feasible)),
                        countText(static_cast<double>(found->plans->size())));
    m_space = m_asked;
    m_plans.setPlans(std::move(found->plans));
    m_rejections.setRejections(std::move(result.rejections));
    Q_EMIT changed();
}

}  // namespace piper::ui
