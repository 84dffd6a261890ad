// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/plans_filter_model.h"

#include <QRegularExpression>
#include <QStringList>
#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/units.h"

namespace piper::ui {
namespace {

struct ColumnKey {
    const char* key;
    int column;
    double scale;
};
constexpr double kPercent = 100.0, kPerGiB = 1.0 / (1024.0 * 1024.0 * 1024.0);
constexpr auto kKeys = std::to_array<ColumnKey>({
    {"rank", RankedPlansModel::Rank, 1.0},
    {"mfu", RankedPlansModel::Mfu, kPercent},
    {"step", RankedPlansModel::Step, 1.0},
    {"tokens", RankedPlansModel::Tokens, 1.0},
    {"memory", RankedPlansModel::Memory, kPerGiB},
    {"bubble", RankedPlansModel::Bubble, kPercent},
    {"exposed", RankedPlansModel::Exposed, kPercent},
    {"tp", RankedPlansModel::Tp, 1.0},
    {"cp", RankedPlansModel::Cp, 1.0},
    {"pp", RankedPlansModel::Pp, 1.0},
    {"vpp", RankedPlansModel::Vpp, 1.0},
    {"ep", RankedPlansModel::Ep, 1.0},
    {"dp", RankedPlansModel::Dp, 1.0},
    {"micro", RankedPlansModel::Micro, 1.0},
    {"zero", RankedPlansModel::Zero, 1.0},
});

QString knownKeys() {
    QStringList out;
    for (const ColumnKey& k : kKeys) out << QString::fromLatin1(k.key);
    return out.join(QStringLiteral(", "));
}

}  // namespace

bool PlansFilterModel::Condition::holds(double number) const {
    const double n = number * scale;
    const bool same = std::abs(n - value) <= 1e-9 * std::max(1.0, std::abs(value));
    switch (comparison) {
        case Comparison::Less:
            return n < value && !same;
        case Comparison::LessEqual:
            return n < value || same;
        case Comparison::Equal:
            return same;
        case Comparison::NotEqual:
            return !same;
        case Comparison::GreaterEqual:
            return n > value || same;
        case Comparison::Greater:
            return n > value && !same;
    }
    return false;
}

PlansFilterModel::PlansFilterModel(RankedPlansModel& plans, QObject* parent)
    : QSortFilterProxyModel(parent), m_plans(plans) {
    setSourceModel(&plans);
    // Rows of another search are others.
    connect(&plans, &QAbstractItemModel::modelReset, this, [this] {
        m_brushed.reset();
        filterChanged();
    });
}

QString PlansFilterModel::read(const QString& word, std::vector<Condition>& conditions,
                               std::vector<QString>& words) {
    static const QRegularExpression form(QStringLiteral("^([^<>=!]+)(<=|>=|!=|<|>|=)(.*)$"));
    const QRegularExpressionMatch match = form.match(word);
    if (!match.hasMatch()) {
        words.push_back(word);
        return {};
    }
    const QString key = match.captured(1).toLower();
    const auto known = std::ranges::find_if(
        kKeys, [&](const ColumnKey& k) { return key == QString::fromLatin1(k.key); });
    if (known == kKeys.end())
        return QStringLiteral("No column '%1'; there are %2").arg(key, knownKeys());
    Condition condition{known->column, Comparison::Equal, 0.0, known->scale};
    bool is_number = false;
    condition.value = match.captured(3).toDouble(&is_number);
    if (!is_number) return QStringLiteral("'%1' is not a number: %2").arg(match.captured(3), word);
    const QStringList signs = {QStringLiteral("<"),  QStringLiteral("<="), QStringLiteral("="),
                               QStringLiteral("!="), QStringLiteral(">="), QStringLiteral(">")};
    condition.comparison = static_cast<Comparison>(signs.indexOf(match.captured(2)));
    conditions.push_back(condition);
    return {};
}

QString PlansFilterModel::setText(const QString& text) {
    std::vector<Condition> conditions;
    std::vector<QString> words;
    for (const QString& word : text.split(u' ', Qt::SkipEmptyParts)) {
        QString fault = read(word, conditions, words);
        if (!fault.isEmpty()) return fault;
    }
    m_conditions = std::move(conditions);
    m_words = std::move(words);
    filterChanged();
    return {};
}

void PlansFilterModel::setBrushed(std::optional<std::set<int>> rows) {
    m_brushed = std::move(rows);
    filterChanged();
}

void PlansFilterModel::filterChanged() {
    invalidateFilter();
    Q_EMIT shownChanged();
}

std::vector<int> PlansFilterModel::shownRows() const {
    std::vector<int> out;
    for (int row = 0; row < rowCount(); ++row) out.push_back(mapToSource(index(row, 0)).row());
    std::ranges::sort(out);
    return out;
}

bool PlansFilterModel::contains(int row, const QString& word) const {
    for (const int column :
         {RankedPlansModel::Schedule, RankedPlansModel::Recompute, RankedPlansModel::Limit})
        if (m_plans.cellText(row, column).contains(word, Qt::CaseInsensitive)) return true;
    return false;
}

bool PlansFilterModel::filterAcceptsRow(int row, const QModelIndex&) const {
    if (m_brushed && !m_brushed->contains(row)) return false;
    return std::ranges::all_of(
               m_conditions,
               [&](const Condition& c) { return c.holds(m_plans.number(row, c.column)); }) &&
           std::ranges::all_of(m_words, [&](const QString& word) { return contains(row, word); });
}

/// Straight from the numbers: through QVariant a hundred thousand rows would take a second.
bool PlansFilterModel::lessThan(const QModelIndex& left, const QModelIndex& right) const {
    return m_plans.number(left.row(), left.column()) < m_plans.number(right.row(), right.column());
}

}  // namespace piper::ui
