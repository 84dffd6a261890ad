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
    RankedPlans::Column column;
    double scale;
};
constexpr double kPercent = 100.0, kPerGiB = 1.0 / (1024.0 * 1024.0 * 1024.0);
constexpr auto kKeys = std::to_array<ColumnKey>({
    {"rank", RankedPlans::Rank, 1.0},
    {"mfu", RankedPlans::Mfu, kPercent},
    {"step", RankedPlans::Step, 1.0},
    {"tokens", RankedPlans::Tokens, 1.0},
    {"memory", RankedPlans::Memory, kPerGiB},
    {"bubble", RankedPlans::Bubble, kPercent},
    {"exposed", RankedPlans::Exposed, kPercent},
    {"tp", RankedPlans::Tp, 1.0},
    {"cp", RankedPlans::Cp, 1.0},
    {"pp", RankedPlans::Pp, 1.0},
    {"vpp", RankedPlans::Vpp, 1.0},
    {"ep", RankedPlans::Ep, 1.0},
    {"dp", RankedPlans::Dp, 1.0},
    {"micro", RankedPlans::Micro, 1.0},
    {"zero", RankedPlans::Zero, 1.0},
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
    : QAbstractTableModel(parent), m_plans(plans) {
    // Rows of another search are others.
    connect(&plans, &QAbstractItemModel::modelReset, this, [this] {
        m_brushed.reset();
        sortRows();
        filterChanged();
    });
    sortRows();
    filterRows();
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

void PlansFilterModel::sortRows() {
    const std::vector<double>& keys = m_plans.plans().numbers(m_column);
    m_sorted = rowsSortedBy(
        keys.size(), [&keys](std::size_t row) { return keys[row]; },
        m_order == Qt::DescendingOrder);
}

void PlansFilterModel::filterRows() {
    const RankedPlans& plans = m_plans.plans();
    std::vector<bool> holds = plans.saying(m_words);
    for (const Condition& c : m_conditions) {
        const std::vector<double>& numbers = plans.numbers(c.column);
        for (std::size_t row = 0; row < plans.size(); ++row)
            holds[row] = holds[row] && c.holds(numbers[row]);
    }
    if (m_brushed) {
        std::vector<bool> brushed(plans.size());
        for (const int row : *m_brushed)
            if (static_cast<std::size_t>(row) < plans.size())
                brushed[static_cast<std::size_t>(row)] = true;
        for (std::size_t row = 0; row < plans.size(); ++row)
            holds[row] = holds[row] && brushed[row];
    }
    m_shown.clear();
    m_row_of.assign(plans.size(), -1);
    for (const int plan : m_sorted) {
        if (!holds[static_cast<std::size_t>(plan)]) continue;
        m_row_of[static_cast<std::size_t>(plan)] = static_cast<int>(m_shown.size());
        m_shown.push_back(plan);
    }
}

void PlansFilterModel::filterChanged() {
    beginResetModel();
    filterRows();
    endResetModel();
    Q_EMIT shownChanged();
}

void PlansFilterModel::sort(int column, Qt::SortOrder order) {
    if (column < 0) return;
    Q_EMIT layoutAboutToBeChanged({}, VerticalSortHint);
    const QModelIndexList before = persistentIndexList();
    std::vector<int> plans;
    for (const QModelIndex& index : before) plans.push_back(planRow(index.row()));
    m_column = column;
    m_order = order;
    sortRows();
    filterRows();
    QModelIndexList after;
    for (qsizetype i = 0; i < before.size(); ++i)
        after << index(rowOf(plans[static_cast<std::size_t>(i)]), before[i].column());
    changePersistentIndexList(before, after);
    Q_EMIT layoutChanged({}, VerticalSortHint);
}

std::vector<int> PlansFilterModel::shownRows() const {
    std::vector<int> out = m_shown;
    std::ranges::sort(out);
    return out;
}

int PlansFilterModel::rowOf(int plan) const {
    return plan < 0 || static_cast<std::size_t>(plan) >= m_row_of.size()
               ? -1
               : m_row_of[static_cast<std::size_t>(plan)];
}

int PlansFilterModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_shown.size());
}

int PlansFilterModel::columnCount(const QModelIndex& parent) const {
    return m_plans.columnCount(parent);
}

QVariant PlansFilterModel::data(const QModelIndex& index, int role) const {
    return index.isValid() ? m_plans.data(m_plans.index(planRow(index.row()), index.column()), role)
                           : QVariant();
}

QVariant PlansFilterModel::headerData(int section, Qt::Orientation orientation, int role) const {
    return m_plans.headerData(section, orientation, role);
}

}  // namespace piper::ui
