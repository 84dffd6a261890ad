// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/heat_map_model.h"

#include <QStringList>
#include <algorithm>
#include <array>

#include "ui/models/model_card.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

using Ranked = RankedPlans;

struct Dimension {
    Ranked::Column column;
    bool degree;  ///< of a process grid: powers of two are worth asking for
};
constexpr auto kDimensions = std::to_array<Dimension>({
    {Ranked::Tp, true},
    {Ranked::Cp, true},
    {Ranked::Pp, true},
    {Ranked::Vpp, true},
    {Ranked::Ep, true},
    {Ranked::Dp, true},
    {Ranked::Micro, true},
    {Ranked::Zero, false},
    {Ranked::Schedule, false},
    {Ranked::Recompute, false},
});

constexpr std::array kMeasures = {Ranked::Mfu,    Ranked::Step,   Ranked::Tokens,
                                  Ranked::Memory, Ranked::Bubble, Ranked::Exposed};

bool isDegree(Ranked::Column column) {
    return std::ranges::find(kDimensions, column, &Dimension::column)->degree;
}

bool higherIsBetter(Ranked::Column measure) {
    return measure == Ranked::Mfu || measure == Ranked::Tokens;
}

std::size_t indexOf(const std::vector<double>& axis, double value) {
    return static_cast<std::size_t>(std::ranges::lower_bound(axis, value) - axis.begin());
}

}  // namespace

HeatMapModel::HeatMapModel(const RankedPlansModel& plans, QObject* parent)
    : QAbstractTableModel(parent), m_plans(plans) {
    connect(&plans, &QAbstractItemModel::modelReset, this, &HeatMapModel::rebuild);
}

std::span<const HeatMapModel::Column> HeatMapModel::dimensions() {
    static const auto columns = [] {
        std::array<Column, kDimensions.size()> out{};
        std::ranges::transform(kDimensions, out.begin(), &Dimension::column);
        return out;
    }();
    return columns;
}

std::span<const HeatMapModel::Column> HeatMapModel::measures() {
    return kMeasures;
}

QString HeatMapModel::title(Column column) const {
    return m_plans.headerData(column, Qt::Horizontal, Qt::DisplayRole).toString();
}

void HeatMapModel::setDimensions(Column down, Column across) {
    if (down == m_down && across == m_across) return;
    m_down = down;
    m_across = across;
    rebuild();
}

void HeatMapModel::setMeasure(Column measure) {
    if (measure == m_measure) return;
    m_measure = measure;
    rebuild();
}

HeatMapModel::Axis HeatMapModel::axisOf(Column column) const {
    std::vector<double> out;
    for (int row = 0; row < m_plans.rowCount(); ++row) out.push_back(m_plans.number(row, column));
    if (!out.empty() && isDegree(column)) {
        const auto world = static_cast<double>(m_plans.planAt(0).plan.cluster.numDevices());
        const double most = std::min(2.0 * std::ranges::max(out), world);
        for (double value = 1.0; value <= most; value *= 2.0) out.push_back(value);
    }
    std::ranges::sort(out);
    const auto same = std::ranges::unique(out);
    out.erase(same.begin(), same.end());
    Axis axis{std::move(out), {}};
    for (const double value : axis.values) axis.texts << valueText(column, value);
    return axis;
}

void HeatMapModel::rebuild() {
    beginResetModel();
    m_rows = axisOf(m_down);
    m_columns = axisOf(m_across);
    m_cells.assign(m_rows.values.size() * m_columns.values.size(), {});
    const bool higher = higherIsBetter(m_measure);
    for (int row = 0; row < m_plans.rowCount(); ++row) {
        const std::size_t at =
            indexOf(m_rows.values, m_plans.number(row, m_down)) * m_columns.values.size() +
            indexOf(m_columns.values, m_plans.number(row, m_across));
        Cell& cell = m_cells[at];
        const double value = m_plans.number(row, m_measure);
        ++cell.count;
        // Of equal ones the first, which ranks higher.
        if (cell.plan >= 0 && (higher ? value <= cell.value : value >= cell.value)) continue;
        cell.plan = row;
        cell.value = value;
    }
    bool first = true;
    for (const Cell& cell : m_cells) {
        if (cell.plan < 0) continue;
        const bool better = higher ? cell.value > m_best : cell.value < m_best;
        const bool worse = higher ? cell.value < m_worst : cell.value > m_worst;
        if (first || better) m_best = cell.value;
        if (first || worse) m_worst = cell.value;
        first = false;
    }
    endResetModel();
}

const HeatMapModel::Cell& HeatMapModel::cell(const QModelIndex& index) const {
    return m_cells[static_cast<std::size_t>(index.row()) * m_columns.values.size() +
                   static_cast<std::size_t>(index.column())];
}

/// As the table of plans says it.
QString HeatMapModel::valueText(Column column, double value) const {
    for (int row = 0; row < m_plans.rowCount(); ++row)
        if (m_plans.number(row, column) == value) return m_plans.cellText(row, column);
    return countText(value);
}

QString HeatMapModel::asked(const QModelIndex& index) const {
    if (!index.isValid() || m_plans.rowCount() == 0) return {};
    QStringList words;
    for (const Dimension& dimension : kDimensions) {
        const bool down = dimension.column == m_down, across = dimension.column == m_across;
        // What is left of the devices follows; chunks and the like follow the schedule's rules.
        if (dimension.column == Ranked::Dp && !down && !across) continue;
        const double value = down     ? m_rows.values[static_cast<std::size_t>(index.row())]
                             : across ? m_columns.values[static_cast<std::size_t>(index.column())]
                                      : m_plans.number(0, dimension.column);
        const QString said = valueText(dimension.column, value);
        words << QStringLiteral("%1=%2").arg(
            QString::fromLatin1(columnKey(dimension.column)),
            dimension.degree ? QString::number(value, 'f', 0) : said);
    }
    return words.join(u' ');
}

QModelIndex HeatMapModel::best() const {
    for (std::size_t i = 0; i < m_cells.size(); ++i)
        if (m_cells[i].plan >= 0 && m_cells[i].value == m_best)
            return index(static_cast<int>(i / m_columns.values.size()),
                         static_cast<int>(i % m_columns.values.size()));
    return {};
}

int HeatMapModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_rows.values.size());
}

int HeatMapModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_columns.values.size());
}

QVariant HeatMapModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const Cell& c = cell(index);
    switch (role) {
        case Qt::DisplayRole:
            return c.plan < 0 ? QStringLiteral("–") : m_plans.cellText(c.plan, m_measure);
        case ShareRole:
            if (c.plan < 0) return {};
            return m_best == m_worst ? 1.0 : (c.value - m_worst) / (m_best - m_worst);
        case PlanRole:
            return c.plan;
        case Qt::TextAlignmentRole:
            return QVariant(Qt::AlignCenter);
        case Qt::ToolTipRole:
        case Qt::AccessibleDescriptionRole: {
            const QString where = QStringLiteral("%1 %2, %3 %4")
                                      .arg(title(m_down), m_rows.texts[index.row()],
                                           title(m_across), m_columns.texts[index.column()]);
            if (c.plan < 0)
                return where + QStringLiteral(": none of the plans found. A click asks why not.");
            return where + QStringLiteral(": the best of %1 plans found, rank %2\n%3")
                               .arg(countText(std::int64_t{c.count}))
                               .arg(c.plan + 1)
                               .arg(layoutText(m_plans.planAt(c.plan).plan));
        }
        default:
            return {};
    }
}

QVariant HeatMapModel::headerData(int section, Qt::Orientation orientation, int role) const {
    const bool across = orientation == Qt::Horizontal;
    const QStringList& texts = across ? m_columns.texts : m_rows.texts;
    if (role != Qt::DisplayRole || section < 0 || section >= texts.size()) return {};
    const Column column = across ? m_across : m_down;
    return isDegree(column) || column == Ranked::Zero ? title(column) + u' ' + texts[section]
                                                      : texts[section];
}

}  // namespace piper::ui
