// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/ranked_plans.h"

#include <QStringList>
#include <algorithm>
#include <map>

#include "ui/models/plan_summary.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

constexpr std::array<const char*, RankedPlans::ColumnCount> kColumnKeys = {
    "rank",
    "mfu",
    "step_seconds",
    "tokens_per_second_per_device",
    "peak_bytes",
    "bubble_fraction",
    "exposed_share",
    "tp",
    "cp",
    "pp",
    "vpp",
    "ep",
    "dp",
    "micro_batch_size",
    "zero_stage",
    "schedule",
    "recompute",
    "bottleneck"};

QString limitText(const Prediction& p) {
    if (p.bottlenecks.empty()) return {};
    return text(toText(p.bottlenecks.front().kind)).replace(u'_', u' ') + u' ' +
           percentText(p.bottlenecks.front().share_of_step, 0);
}

double numberOf(const RankedPlan& r, std::size_t row, int column) {
    const Layout& l = r.plan.layout;
    switch (column) {
        case RankedPlans::Rank:
            return static_cast<double>(row + 1);
        case RankedPlans::Mfu:
            return r.prediction.mfu;
        case RankedPlans::Step:
            return r.prediction.step.value;
        case RankedPlans::Tokens:
            return r.prediction.tokens_per_second_per_device;
        case RankedPlans::Memory:
            return r.prediction.memory.peak.value;
        case RankedPlans::Bubble:
            return r.prediction.bubble_fraction;
        case RankedPlans::Exposed:
            return r.prediction.step.value > 0 ? exposedTotal(r.prediction) / r.prediction.step : 0;
        case RankedPlans::Tp:
            return static_cast<double>(l.tp);
        case RankedPlans::Cp:
            return static_cast<double>(l.cp);
        case RankedPlans::Vpp:
            return static_cast<double>(l.vpp);
        case RankedPlans::Zero:
            return static_cast<double>(r.plan.zero_stage);
        case RankedPlans::Pp:
            return static_cast<double>(l.pp);
        case RankedPlans::Ep:
            return static_cast<double>(l.ep);
        case RankedPlans::Dp:
            return static_cast<double>(l.dp);
        case RankedPlans::Micro:
            return static_cast<double>(r.plan.micro_batch_size);
        case RankedPlans::Schedule:
            return static_cast<double>(r.plan.schedule);
        case RankedPlans::Recompute:
            return static_cast<double>(r.plan.recompute.granularity);
        default:
            return r.prediction.bottlenecks.empty()
                       ? 0
                       : r.prediction.bottlenecks.front().share_of_step;
    }
}

QString textOf(const RankedPlan& r, double v, int column) {
    switch (column) {
        case RankedPlans::Mfu:
        case RankedPlans::Bubble:
        case RankedPlans::Exposed:
            return percentText(v);
        case RankedPlans::Step:
            return secondsText(Seconds(v));
        case RankedPlans::Memory:
            return bytesText(Bytes(v));
        case RankedPlans::Schedule:
            return text(toText(r.plan.schedule));
        case RankedPlans::Recompute:
            return text(toText(r.plan.recompute.granularity));
        case RankedPlans::Limit:
            return limitText(r.prediction);
        default:
            return countText(v);
    }
}

}  // namespace

const char* columnKey(RankedPlans::Column column) {
    return kColumnKeys[static_cast<std::size_t>(column)];
}

RankedPlans::RankedPlans(std::vector<RankedPlan> plans) : m_plans(std::move(plans)) {
    for (int column = 0; column < ColumnCount; ++column) {
        std::vector<double>& numbers = m_numbers[static_cast<std::size_t>(column)];
        numbers.reserve(size());
        for (std::size_t row = 0; row < size(); ++row)
            numbers.push_back(numberOf(m_plans[row], row, column));
    }
    std::map<QString, std::uint32_t> known;
    m_words_of.reserve(size());
    for (std::size_t row = 0; row < size(); ++row) {
        QStringList said;
        for (const int column : {Schedule, Recompute, Limit}) said << cellText(row, column);
        const auto next = static_cast<std::uint32_t>(m_words.size());
        const auto [at, is_new] = known.try_emplace(said.join(u'\n'), next);
        if (is_new) m_words.push_back(at->first);
        m_words_of.push_back(at->second);
    }
}

QString RankedPlans::cellText(std::size_t row, int column) const {
    return textOf(m_plans[row], number(row, column), column);
}

std::vector<bool> RankedPlans::saying(const std::vector<QString>& words) const {
    std::vector<bool> good;
    for (const QString& said : m_words)
        good.push_back(std::ranges::all_of(
            words, [&](const QString& word) { return said.contains(word, Qt::CaseInsensitive); }));
    std::vector<bool> out(size());
    for (std::size_t row = 0; row < size(); ++row) out[row] = good[m_words_of[row]];
    return out;
}

}  // namespace piper::ui
