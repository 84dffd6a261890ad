// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

class QCustomPlot;
class QLabel;

namespace piper::ui {

/// A plot with its title above it, in the colours of the window's palette. Subclasses fill it.
class PlotFrame : public QWidget {
    Q_OBJECT
public:
    PlotFrame(const QString& title, QWidget* parent);

    void setTitle(const QString& title);
    /// Draws what is to be drawn now, so sharp: for a picture of a plot that is not shown.
    void drawNow(double device_pixel_ratio);

protected:
    [[nodiscard]] QCustomPlot& plot() { return *m_plot; }
    [[nodiscard]] const QCustomPlot& plot() const { return *m_plot; }
    [[nodiscard]] bool dark() const;
    /// Axis and grid colours after a change of the palette.
    virtual void applyPalette();
    /// Text for the hover over that pixel of the plot; empty for none.
    [[nodiscard]] virtual QString hoverText(const QPoint& position) const;
    void changeEvent(QEvent* event) override;
    bool eventFilter(QObject* watched, QEvent* event) override;

private:
    void fitTicks(int width);

    QLabel* m_title;
    QCustomPlot* m_plot;
};

}  // namespace piper::ui
