// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/tour_bar.h"

#include <QLabel>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/views/widgets.h"

namespace piper::ui {

TourBar::TourBar(Tour& tour, QWidget* parent)
    : QFrame(parent),
      m_tour(tour),
      m_title(makeLabel({}, "section", this)),
      m_text(makeLabel({}, "plain", this)),
      m_show(new QPushButton(QStringLiteral("Show me"), this)),
      m_back(new QPushButton(QStringLiteral("Back"), this)),
      m_next(new QPushButton(this)) {
    setObjectName(QStringLiteral("tour"));
    setProperty("role", QStringLiteral("card"));
    auto* close = new QPushButton(QStringLiteral("Leave the tour"), this);
    m_show->setObjectName(QStringLiteral("tour.show"));
    m_back->setObjectName(QStringLiteral("tour.back"));
    m_next->setObjectName(QStringLiteral("tour.next"));
    close->setObjectName(QStringLiteral("tour.end"));
    m_text->setWordWrap(true);
    auto* line = new QHBoxLayout(this);
    line->setContentsMargins(kPageMargin, kSpacing, kPageMargin, kSpacing);
    line->setSpacing(kSpacing);
    auto* words = new QVBoxLayout;
    words->setSpacing(2);
    words->addWidget(m_title);
    words->addWidget(m_text);
    line->addLayout(words, 1);
    for (QPushButton* button : {m_show, m_back, m_next, close}) line->addWidget(button);
    connect(m_show, &QPushButton::clicked, this, [this] {
        Q_EMIT actionWanted(QString::fromUtf8(m_tour.step().section),
                            QString::fromUtf8(m_tour.step().action));
    });
    connect(m_back, &QPushButton::clicked, &tour, &Tour::back);
    connect(m_next, &QPushButton::clicked, &tour, &Tour::next);
    connect(close, &QPushButton::clicked, &tour, &Tour::end);
    connect(&tour, &Tour::changed, this, &TourBar::take);
    take();
}

void TourBar::take() {
    setVisible(m_tour.running());
    if (!m_tour.running()) return;
    const TourStep& step = m_tour.step();
    const auto all = static_cast<int>(tourSteps().size());
    m_title->setText(QStringLiteral("%1 of %2 · %3")
                         .arg(m_tour.at() + 1)
                         .arg(all)
                         .arg(QString::fromUtf8(step.title)));
    m_text->setText(QString::fromUtf8(step.text));
    m_show->setVisible(*step.action != '\0');
    m_back->setEnabled(m_tour.at() > 0);
    m_next->setText(m_tour.at() + 1 < all ? QStringLiteral("Next") : QStringLiteral("Done"));
    setAccessibleName(m_title->text());
    setAccessibleDescription(m_text->text());
}

}  // namespace piper::ui
