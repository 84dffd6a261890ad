// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/text_line.h"

#include <QHelpEvent>
#include <QPainter>
#include <QToolTip>

namespace piper::ui {
namespace {

constexpr int kValuePixels = 19;
constexpr int kUsualWidth = 160;

}  // namespace

TextLine::TextLine(Look look, QWidget* parent) : QWidget(parent), m_look(look) {
    setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void TextLine::setText(const QString& text) {
    if (text == m_text) return;
    m_text = text;
    setAccessibleName(text);
    update();
}

QFont TextLine::lineFont() const {
    QFont out = font();
    if (m_look == Look::Value) out.setPixelSize(kValuePixels);
    if (m_look == Look::Value || m_look == Look::Bold) out.setWeight(QFont::DemiBold);
    return out;
}

QSize TextLine::sizeHint() const {
    return {kUsualWidth, QFontMetrics(lineFont()).height() + 1};
}

bool TextLine::fits() const {
    return QFontMetrics(lineFont()).horizontalAdvance(m_text) <= width();
}

void TextLine::paintEvent(QPaintEvent*) {
    QPainter painter(this);
    const QFont line_font = lineFont();
    painter.setFont(line_font);
    painter.setPen(
        palette().color(m_look == Look::Faint ? QPalette::PlaceholderText : QPalette::WindowText));
    painter.drawText(rect(), static_cast<int>(m_alignment | Qt::AlignVCenter),
                     QFontMetrics(line_font).elidedText(m_text, Qt::ElideRight, width()));
}

bool TextLine::event(QEvent* event) {
    if (event->type() == QEvent::ToolTip && toolTip().isEmpty() && !fits()) {
        QToolTip::showText(static_cast<QHelpEvent*>(event)->globalPos(), m_text, this);
        return true;
    }
    return QWidget::event(event);
}

}  // namespace piper::ui
