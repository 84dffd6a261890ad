// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>
#include <optional>
#include <vector>

#include "ui/models/cluster_boxes.h"

class QPainter;

namespace piper::ui {

/// A cluster as boxes in boxes: nodes and devices, hanging on the links that join them.
class ClusterPicture : public QWidget {
    Q_OBJECT
public:
    explicit ClusterPicture(QWidget* parent = nullptr);
    void setCluster(const std::optional<ClusterSpec>& cluster);

    [[nodiscard]] bool hasHeightForWidth() const override { return true; }
    [[nodiscard]] int heightForWidth(int width) const override;
    [[nodiscard]] QSize sizeHint() const override { return {460, heightForWidth(460)}; }
    [[nodiscard]] QSize minimumSizeHint() const override { return {220, heightForWidth(220)}; }

protected:
    void paintEvent(QPaintEvent* event) override;
    bool event(QEvent* event) override;

private:
    /// A box with its place; those inside it follow it.
    struct Placed {
        const ClusterBox* box;
        QRect rect;
        std::vector<Placed> inside;
    };
    [[nodiscard]] Placed place(const ClusterBox& box, QPoint at, int width) const;
    void placeDevices(Placed& out, int& y) const;
    void placeGroups(Placed& out, int& y) const;
    void paint(QPainter& painter, const Placed& placed) const;
    void paintLink(QPainter& painter, const Placed& placed) const;
    [[nodiscard]] static const Placed* at(const Placed& placed, QPoint point);
    [[nodiscard]] int line() const { return fontMetrics().height(); }
    [[nodiscard]] int headHeight(const ClusterBox& box) const;

    std::optional<ClusterBox> m_box;
};

}  // namespace piper::ui
