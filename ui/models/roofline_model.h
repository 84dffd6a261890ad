// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QAbstractTableModel>
#include <vector>

#include "core/predict/roofline.h"

namespace piper::ui {

/// One point of a roofline plot.
struct RoofPoint {
    double x = 0.0;     ///< GEMM: FLOP per byte; link: bytes of a message
    double rate = 0.0;  ///< FLOP/s, or bytes/s
    double roof = 0.0;  ///< in the same unit
    Phase phase = Phase::Attention;
    bool known = false;  ///< measured or published, inside what was measured
    QString text;        ///< for the hover
};

/// GEMMs and links of a plan with their rates, roofs and evidence: rows of a table and points of
/// the two plots, in the same order.
class RooflineModel : public QAbstractTableModel {
    Q_OBJECT
public:
    enum Column { What, Size, Time, Rate, Roof, Share, Limit, EvidenceColumn, ColumnCount };
    using QAbstractTableModel::QAbstractTableModel;

    void setRoofline(Roofline roofline);
    [[nodiscard]] const Roofline& roofline() const { return m_roofline; }
    [[nodiscard]] std::vector<RoofPoint> gemmPoints() const;
    [[nodiscard]] std::vector<RoofPoint> linkPoints() const;
    [[nodiscard]] int numGemms() const { return static_cast<int>(m_roofline.gemms.size()); }

    [[nodiscard]] int rowCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] int columnCount(const QModelIndex& parent = {}) const override;
    [[nodiscard]] QVariant data(const QModelIndex& index, int role) const override;
    [[nodiscard]] QVariant headerData(int section, Qt::Orientation orientation,
                                      int role) const override;

private:
    Roofline m_roofline;
};

}  // namespace piper::ui
