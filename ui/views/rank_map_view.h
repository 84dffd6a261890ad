// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>
#include <optional>
#include <set>

#include "ui/models/rank_map.h"

class QComboBox;

namespace piper::ui {

/// The ranks of a plan three times: on nodes, in the dense and in the expert grid, coloured by
/// stage. A click or the arrows choose a rank, whose group is marked in all three.
class RankMapView : public QWidget {
    Q_OBJECT
public:
    explicit RankMapView(QWidget* parent = nullptr);

    void setMap(std::optional<RankMap> map);
    [[nodiscard]] const std::optional<RankMap>& map() const { return m_map; }
    void setDimension(std::string_view dimension);
    void select(RankId rank);
    [[nodiscard]] RankId selected() const { return m_selected; }
    /// The middle of a rank's cell in a picture (0 nodes, 1 dense, 2 expert).
    [[nodiscard]] QPoint cellOf(std::size_t picture, RankId rank) const;

Q_SIGNALS:
    /// Of the chosen rank, in words.
    void described(const QString& text);

protected:
    void paintEvent(QPaintEvent* event) override;
    void resizeEvent(QResizeEvent* event) override;
    void mousePressEvent(QMouseEvent* event) override;
    void keyPressEvent(QKeyEvent* event) override;

private:
    /// A block where it is painted.
    struct Placed {
        std::size_t picture = 0, block = 0;
        QPoint at;  ///< of the first cell
        int cell = 1;
    };
    [[nodiscard]] int columnWidth() const;
    /// Places the blocks of a picture with cells that wide; the height they take.
    int flow(std::size_t picture, int cell, std::vector<Placed>* out) const;
    void place();
    void mark();
    [[nodiscard]] const RankBlock& blockOf(const Placed& placed) const;
    void paintBlock(QPainter& painter, const Placed& placed) const;

    std::optional<RankMap> m_map;
    std::string_view m_dimension = "ep";
    RankId m_selected{std::int32_t{0}};
    std::set<RankId> m_marked;
    std::vector<Placed> m_placed;
};

/// The view with the list of groups and the words about the chosen rank.
class RankMapPanel : public QWidget {
    Q_OBJECT
public:
    explicit RankMapPanel(QWidget* parent = nullptr);
    [[nodiscard]] RankMapView* view() const { return m_view; }

private:
    QComboBox* m_dimension;
    RankMapView* m_view;
    QLabel* m_words;
};

}  // namespace piper::ui
