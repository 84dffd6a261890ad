// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

namespace piper::ui {

/// One line of text that changes under the finger. Unlike a QLabel it asks for the same room
/// whatever it says, so a new number repaints these few pixels and lays out nothing. What does not
/// fit is elided; the hover text then has all of it.
class TextLine : public QWidget {
    Q_OBJECT
public:
    enum class Look { Plain, Faint, Bold, Value };

    explicit TextLine(Look look, QWidget* parent = nullptr);

    void setText(const QString& text);
    [[nodiscard]] const QString& text() const { return m_text; }
    void setAlignment(Qt::Alignment alignment) { m_alignment = alignment; }
    /// Whether all of the text is shown.
    [[nodiscard]] bool fits() const;

    [[nodiscard]] QSize sizeHint() const override;
    [[nodiscard]] QSize minimumSizeHint() const override { return {10, sizeHint().height()}; }

protected:
    void paintEvent(QPaintEvent* event) override;
    bool event(QEvent* event) override;

private:
    [[nodiscard]] QFont lineFont() const;

    Look m_look;
    QString m_text;
    Qt::Alignment m_alignment = Qt::AlignLeft;
};

}  // namespace piper::ui
