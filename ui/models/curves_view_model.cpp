// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/curves_view_model.h"

#include <QLocale>
#include <algorithm>
#include <array>
#include <cmath>

#include "core/search/cluster_change.h"
#include "ui/models/model_card.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

const QString kCurveTopic = QStringLiteral("curves");
constexpr std::size_t kMostCounts = 5;
constexpr double kBillion = 1e9;

constexpr CurveInfo capacity(CurveKind kind, const char* label) {
    return {kind, label, "devices", "parameters, 1e9", "all", "active"};
}

constexpr CurveInfo sensitivityOver(CurveKind kind, const char* label, const char* x_label) {
    return {kind, label, x_label, "tokens/s per device", "best plan", "today's best plan held"};
}

// In the order of CurveKind.
constexpr std::array kCurves = {
    capacity(CurveKind::CapacityLayers, "largest model by layers"),
    capacity(CurveKind::CapacityExperts, "largest model by experts"),
    capacity(CurveKind::CapacityHidden, "largest model by width"),
    sensitivityOver(CurveKind::Link, "bandwidth between nodes", "bandwidth"),
    sensitivityOver(CurveKind::Memory, "memory of a device", "memory"),
    sensitivityOver(CurveKind::RoutingSkew, "routing skew", "Zipf exponent"),
    sensitivityOver(CurveKind::GlobalBatch, "global batch", "sequences"),
};

bool isCapacity(CurveKind kind) {
    return kind <= CurveKind::CapacityHidden;
}

GrowBy growth(CurveKind kind) {
    return kind == CurveKind::CapacityLayers    ? GrowBy::Layers
           : kind == CurveKind::CapacityExperts ? GrowBy::Experts
                                                : GrowBy::Hidden;
}

SensitivityQuestion questionOf(CurveKind kind) {
    switch (kind) {
        case CurveKind::Memory:
            return {SensitivityKnob::Memory, {}, {0.5, 0.75, 1.0, 1.5, 2.0}};
        case CurveKind::RoutingSkew:
            return {SensitivityKnob::RoutingSkew, {}, {0.0, 0.25, 0.5, 0.75, 1.0}};
        case CurveKind::GlobalBatch:
            return {SensitivityKnob::GlobalBatch, {}, {0.25, 0.5, 1.0, 2.0, 4.0}};
        default:
            return {SensitivityKnob::Link, {}, {0.125, 0.25, 0.5, 1.0, 2.0, 4.0}};
    }
}

QString stoppedBy(const Shortfall& shortfall) {
    QString out = text(shortfall.message);
    for (const FitChange& change : shortfall.changes)
        out += QStringLiteral("; would fit: ") + text(change.change);
    return out;
}

/// Half, a quarter, … of the cluster's devices, ascending: whole nodes, or a part of one.
std::vector<std::int64_t> deviceSteps(const ClusterSpec& cluster) {
    std::vector<std::int64_t> out;
    for (std::int64_t n = cluster.numDevices(); n >= 1 && out.size() < kMostCounts; n /= 2) {
        const bool whole = n < cluster.devices_per_node || n % cluster.devices_per_node == 0;
        if (whole) out.push_back(n);
        if (n % 2 != 0) break;
    }
    std::ranges::reverse(out);
    return out;
}

CurvePoint largestPoint(const LargestModel& largest, std::int64_t devices, GrowBy by) {
    CurvePoint point;
    point.setting = countText(devices);
    if (!largest.best) {
        point.note = stoppedBy(largest.stopped);
        return point;
    }
    const ModelParameters parameters = modelParameters(largest.model);
    point.first = static_cast<double>(parameters.total) / kBillion;
    point.second = static_cast<double>(parameters.active) / kBillion;
    point.plan = std::make_shared<const Plan>(largest.best->plan);
    point.note = QStringLiteral("%1 %2 · %3 · MFU %4")
                     .arg(countText(largest.size), text(toText(by)), layoutText(*point.plan),
                          percentText(largest.best->prediction.mfu));
    return point;
}

Result<Curve> capacityCurve(CurveKind kind, const SearchSpace& space, const SearchRun& run) {
    Curve out{kind, {}, {}};
    const GrowBy by = growth(kind);
    const std::vector<std::int64_t> counts = deviceSteps(space.base.cluster);
    for (const std::int64_t devices : counts) {
        SearchSpace there = space;
        there.base.cluster = withDevices(there.base.cluster, devices);
        PIPER_ASSIGN(const LargestModel largest, largestModel(there, by, run));
        out.points.push_back(largestPoint(largest, devices, by));
        if (run.progress) run.progress(out.points.size(), counts.size());
        if (devices == counts.back())
            out.sentence = QStringLiteral("On all %1 devices the next size, %2 %3, is stopped: %4")
                               .arg(countText(devices), countText(largest.next_size),
                                    text(toText(by)), stoppedBy(largest.stopped));
    }
    return out;
}

/// The point that changes today's setting least: its best plan is the one held.
const SensitivityPoint* todaysPoint(const SensitivityCurve& curve) {
    const double none = curve.question.knob == SensitivityKnob::RoutingSkew ? 0.0 : 1.0;
    for (const SensitivityPoint& p : curve.points)
        if (p.value == none && p.best) return &p;
    return nullptr;
}

Result<Curve> sensitivityCurve(CurveKind kind, const SearchSpace& space, const SearchRun& run) {
    PIPER_ASSIGN(const SensitivityCurve found, sensitivity(space, questionOf(kind), run));
    Curve out{kind, {}, text(expertTurn(found))};
    const SensitivityPoint* today = todaysPoint(found);
    for (const SensitivityPoint& p : found.points) {
        CurvePoint point;
        point.setting = text(p.setting);
        const double batch = static_cast<double>(space.base.global_batch_size) *
                             (kind == CurveKind::GlobalBatch ? p.value : 1.0);
        if (today != nullptr && p.held_step)
            point.second =
                batch * static_cast<double>(space.base.seq_len) /
                (p.held_step->value * static_cast<double>(today->best->plan.layout.world()));
        if (p.best) {
            point.first = p.best->prediction.tokens_per_second_per_device;
            point.plan = std::make_shared<const Plan>(p.best->plan);
            point.note = QStringLiteral("%1 · step %2 · MFU %3")
                             .arg(layoutText(*point.plan), secondsText(p.best->prediction.step),
                                  percentText(p.best->prediction.mfu));
        } else {
            point.note = stoppedBy(p.shortfall);
        }
        out.points.push_back(std::move(point));
    }
    return out;
}

QString valueText(const std::optional<double>& value) {
    return value ? QLocale().toString(*value, 'f', *value < 1000 ? 1 : 0) : QStringLiteral("–");
}

}  // namespace

std::span<const CurveInfo> curveTable() {
    return kCurves;
}

const CurveInfo& curveInfo(CurveKind kind) {
    return kCurves[static_cast<std::size_t>(kind)];
}

Result<Curve> computeCurve(CurveKind kind, const Plan& base, const SearchRun& run) {
    SearchSpace space;
    space.base = base;
    space.objective = Objective::TokensPerSecond;
    return isCapacity(kind) ? capacityCurve(kind, space, run) : sensitivityCurve(kind, space, run);
}

CurvesViewModel::CurvesViewModel(Executor& executor, QObject* parent)
    : QAbstractTableModel(parent),
      m_executor(executor),
      m_status(QStringLiteral("Compute searches again at every point of the curve.")) {}

void CurvesViewModel::start(CurveKind kind, const Plan& base) {
    m_running = true;
    m_fraction = 0.0;
    m_status = QStringLiteral("Searching…");
    m_executor.submit(kCurveTopic, Executor::Lane::Long,
                      [kind, base, parallel_for = m_parallel_for,
                       this](const Executor::Context& context) -> Executor::OnWindow {
                          const auto progress = [&](std::size_t done, std::size_t total) {
                              context.post([this, done, total] {
                                  m_fraction =
                                      static_cast<double>(done) / static_cast<double>(total);
                                  m_status = QStringLiteral("%1 of %2 points").arg(done).arg(total);
                                  Q_EMIT changed();
                              });
                          };
                          auto curve = std::make_shared<Result<Curve>>(
                              computeCurve(kind, base, {parallel_for, context.stop, progress}));
                          return [curve, this] { finish(std::move(*curve)); };
                      });
    Q_EMIT changed();
}

void CurvesViewModel::cancel() {
    if (!m_running) return;
    m_executor.cancel(kCurveTopic);
    m_running = false;
    m_status = QStringLiteral("Cancelled.");
    Q_EMIT changed();
}

void CurvesViewModel::finish(Result<Curve> curve) {
    m_running = false;
    m_fraction = 1.0;
    if (curve.ok()) {
        beginResetModel();
        m_curve = std::move(curve).value();
        endResetModel();
        m_status = QStringLiteral("A click on a point puts the sliders there, with its setting.");
    } else {
        m_status = errorText(curve.error());
    }
    Q_EMIT changed();
}

int CurvesViewModel::rowCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : static_cast<int>(m_curve.points.size());
}

int CurvesViewModel::columnCount(const QModelIndex& parent) const {
    return parent.isValid() ? 0 : ColumnCount;
}

QVariant CurvesViewModel::data(const QModelIndex& index, int role) const {
    if (!index.isValid()) return {};
    const CurvePoint& point = m_curve.points[static_cast<std::size_t>(index.row())];
    if (role == Qt::ToolTipRole) return point.note;
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter |
                        (index.column() == Note ? Qt::AlignLeft : Qt::AlignRight));
    if (role != Qt::DisplayRole) return {};
    switch (index.column()) {
        case Setting:
            return point.setting;
        case First:
            return valueText(point.first);
        case Second:
            return valueText(point.second);
        default:
            return point.note;
    }
}

QVariant CurvesViewModel::headerData(int section, Qt::Orientation orientation, int role) const {
    if (orientation != Qt::Horizontal) return {};
    if (role == Qt::TextAlignmentRole)
        return QVariant(Qt::AlignVCenter | (section == Note ? Qt::AlignLeft : Qt::AlignRight));
    const CurveInfo& info = curveInfo(m_curve.kind);
    if (role == Qt::ToolTipRole && (section == First || section == Second))
        return QString::fromLatin1(info.y_label);
    if (role != Qt::DisplayRole) return {};
    const char* const titles[] = {info.x_label, info.first, info.second,
                                  "plan, or what stops there being one"};
    return QString::fromLatin1(titles[section]);
}

}  // namespace piper::ui
