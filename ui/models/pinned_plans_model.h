// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <array>
#include <optional>
#include <vector>

#include "ui/models/plan_view_model.h"

namespace piper::ui {

/// The plan under the sliders beside up to four pinned ones: a row a number, a column a plan.
/// DiffersRole tells cells that are not what the first column has.
class PinnedPlansModel : public QAbstractTableModel {
    Q_OBJECT
public:
    static constexpr std::size_t kMostPins = 4;
    static constexpr int DiffersRole = Qt::UserRole + 1;

    explicit PinnedPlansModel(PlanViewModel& plan, QObject* parent = nullptr);

    [[nodiscard]] std::size_t numPins() const { return m_pins.size(); }
    /// Whether the plan at hand can be pinned: there is room and core predicts it.
    [[nodiscard]] bool canPin() const;

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

public Q_SLOTS:
    void pin();
    /// Column 1 and up.
    void unpin(int column);
    /// Puts the sliders to a pinned plan.
    void choose(int column);

Q_SIGNALS:
    void pinsChanged();

private:
    struct Pin {
        Plan plan;
        Prediction prediction;
    };
    using Cells = std::vector<QString>;

    void takePrediction();
    [[nodiscard]] static Cells cellsOf(const Plan& plan, const Prediction* prediction);

    PlanViewModel& m_plan;
    std::vector<Pin> m_pins;
    std::vector<Cells> m_columns;  ///< the plan at hand, then the pins
};

}  // namespace piper::ui
