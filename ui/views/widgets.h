// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QFrame>
#include <QLabel>
#include <QWidget>
#include <functional>
#include <vector>

#include "ui/models/model_card.h"
#include "ui/models/plan_summary.h"
#include "ui/views/text_line.h"

class QGridLayout;
class QHBoxLayout;
class QTableView;
class QAbstractItemModel;
class QModelIndex;
class QVBoxLayout;

namespace piper::ui {

/// Distances used on every page, logical pixels.
inline constexpr int kPageMargin = 14;
inline constexpr int kSpacing = 10;

[[nodiscard]] QLabel* makeLabel(const QString& text, const char* role, QWidget* parent);
/// A page's column with its title on top.
[[nodiscard]] QVBoxLayout* makePageLayout(QWidget* page, const QString& title);
/// Dense, sortable by the header when `sort` and a proxy that sorts by Qt::UserRole is wanted.
[[nodiscard]] QTableView* makeTable(QAbstractItemModel* model, QWidget* parent);

/// A click on a cell, or Return on the current one, does that.
void onClickOrReturn(QTableView& table, std::function<void(const QModelIndex&)> act);

/// A number with its name above and its range below.
class MetricTile : public QFrame {
    Q_OBJECT
public:
    explicit MetricTile(QWidget* parent = nullptr);
    void show(const Metric& metric);
    void clear();
    [[nodiscard]] const QString& value() const { return m_value->text(); }
    [[nodiscard]] TextLine* valueLine() const { return m_value; }

private:
    TextLine* m_label;
    TextLine* m_evidence;
    TextLine* m_value;
    TextLine* m_detail;
};

/// Names and values in two columns under a heading.
class FactCard : public QFrame {
    Q_OBJECT
public:
    explicit FactCard(const QString& title, QWidget* parent = nullptr);
    void setTitle(const QString& title);
    void setRows(const std::vector<CardRow>& rows);
    [[nodiscard]] QVBoxLayout* column() const { return m_column; }
    /// Puts a widget to the right of the title.
    void addToTitle(QWidget* widget);

private:
    QVBoxLayout* m_column;
    QHBoxLayout* m_head;
    QLabel* m_title;
    QGridLayout* m_grid;
    std::vector<std::pair<QLabel*, TextLine*>> m_lines;
};

/// Time per phase as bars in the phases' colours, the exposed part marked.
class PhaseShareView : public QWidget {
    Q_OBJECT
public:
    explicit PhaseShareView(QWidget* parent = nullptr);
    void setShares(std::vector<PhaseShare> shares);
    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override;

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    std::vector<PhaseShare> m_shares;
};

/// Colours with their names, in as many rows as the width asks for.
class ColourLegend : public QWidget {
    Q_OBJECT
public:
    struct Entry {
        QString label;
        QColor light, dark;
    };
    explicit ColourLegend(QWidget* parent = nullptr);
    void setEntries(std::vector<Entry> entries);
    [[nodiscard]] bool hasHeightForWidth() const override { return true; }
    [[nodiscard]] int heightForWidth(int width) const override;
    [[nodiscard]] QSize sizeHint() const override { return {600, heightForWidth(600)}; }
    [[nodiscard]] QSize minimumSizeHint() const override { return {100, 18}; }

protected:
    void paintEvent(QPaintEvent* event) override;

private:
    /// Where each entry stands when the widget is that wide.
    [[nodiscard]] std::vector<QRect> places(int width) const;
    std::vector<Entry> m_entries;
};

/// All phases but idle.
[[nodiscard]] ColourLegend* makePhaseLegend(QWidget* parent);
/// The memory terms that any stage holds at its peak.
[[nodiscard]] std::vector<ColourLegend::Entry> memoryLegend(const MemoryPrediction& memory);

}  // namespace piper::ui
