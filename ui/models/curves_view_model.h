// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <QObject>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/search/sensitivity.h"
#include "ui/models/executor.h"

namespace piper::ui {

/// What a curve is over. Capacity: the largest model over the number of devices, grown by layers,
/// experts or width. The others: the best plan over one part of the setting.
enum class CurveKind {
    CapacityLayers,
    CapacityExperts,
    CapacityHidden,
    Link,
    Memory,
    RoutingSkew,
    GlobalBatch
};

struct CurveInfo {
    CurveKind kind;
    const char* label;  ///< in the list
    const char* x_label;
    const char* y_label;
    const char* first;   ///< name of the first line
    const char* second;  ///< and of the second
};
[[nodiscard]] std::span<const CurveInfo> curveTable();
[[nodiscard]] const CurveInfo& curveInfo(CurveKind kind);

struct CurvePoint {
    QString setting;                      ///< "ib 25.0 GB/s", "32 devices"
    std::optional<double> first, second;  ///< in the unit of the axis; nothing: no plan
    QString note;                         ///< the plan, or what stops there being one
    std::shared_ptr<const Plan> plan;     ///< null: none; with the setting of the point
};

struct Curve {
    CurveKind kind = CurveKind::CapacityLayers;
    std::vector<CurvePoint> points;
    QString sentence;  ///< what is to be seen, empty without anything
};

/// Errors: those of largestModel and sensitivity. `progress`: points done and in all.
[[nodiscard]] Result<Curve> computeCurve(CurveKind kind, const Plan& base, const SearchRun& run);

/// Curves around the plan at hand, computed by core on the executor, and their points as a table.
class CurvesViewModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column { Setting, First, Second, Note, ColumnCount };

    explicit CurvesViewModel(Executor& executor, QObject* parent = nullptr);
    /// How searches use the processors; one after the other unless set.
    void setParallelFor(ParallelFor parallel_for) { m_parallel_for = std::move(parallel_for); }

    void start(CurveKind kind, const Plan& base);
    [[nodiscard]] bool running() const { return m_running; }
    [[nodiscard]] double fraction() const { return m_fraction; }
    [[nodiscard]] const QString& status() const { return m_status; }
    /// The last one computed.
    [[nodiscard]] const Curve& curve() const { return m_curve; }

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

public Q_SLOTS:
    void cancel();

Q_SIGNALS:
    void changed();

private:
    void finish(Result<Curve> curve);

    Executor& m_executor;
    ParallelFor m_parallel_for = sequentialFor();
    bool m_running = false;
    double m_fraction = 0.0;
    QString m_status;
    Curve m_curve;
};

}  // namespace piper::ui
