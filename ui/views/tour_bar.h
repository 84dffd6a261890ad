// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QFrame>

#include "ui/models/tour.h"

class QLabel;
class QPushButton;

namespace piper::ui {

/// The step the tour is at, below the page it speaks of; hidden while there is none.
class TourBar : public QFrame {
    Q_OBJECT
public:
    TourBar(Tour& tour, QWidget* parent);

Q_SIGNALS:
    void actionWanted(const QString& section, const QString& text);

private:
    void take();

    Tour& m_tour;
    QLabel* m_title;
    QLabel* m_text;
    QPushButton* m_show;
    QPushButton* m_back;
    QPushButton* m_next;
};

}  // namespace piper::ui
