// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/sessions_page.h"

#include <QHBoxLayout>
#include <QPushButton>

#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

QString stateText(const SessionViewModel& session) {
    switch (session.state()) {
        case SessionViewModel::State::Closed:
            return QStringLiteral("not open");
        case SessionViewModel::State::Opening:
            return QStringLiteral("opening…");
        case SessionViewModel::State::Open:
            return QStringLiteral("open");
        case SessionViewModel::State::Failed:
            return session.fault();
    }
    return {};
}

}  // namespace

SessionsPage::SessionsPage(Workbench& workbench, QWidget* parent) : QWidget(parent) {
    auto* page = makePageLayout(this, QStringLiteral("Sessions"));
    page->addWidget(
        makeLabel(QStringLiteral("A session is an open connection to the hosts a plan runs on."),
                  "faint", this));
    auto* cards = new QVBoxLayout;
    cards->setSpacing(kSpacing);
    for (const auto& session : workbench.sessions) addSession(*session, *cards);
    page->addLayout(cards);
    page->addStretch(1);
    page->addWidget(makeLabel(QStringLiteral("Clusters over SSH are not built yet; they will stand "
                                             "here beside this machine."),
                              "faint", this));
}

void SessionsPage::addSession(SessionViewModel& session, QBoxLayout& into) {
    auto* facts = new FactCard(session.name(), this);
    facts->setObjectName(QStringLiteral("session.") + session.name());
    facts->setMaximumWidth(720);
    const Card card{&session, facts, makeLabel({}, "faint", facts),
                    new QPushButton(QStringLiteral("Open"), facts)};
    auto* line = new QHBoxLayout;
    line->addWidget(card.state, 1);
    line->addWidget(card.open);
    facts->column()->addLayout(line);
    connect(card.open, &QPushButton::clicked, &session, &SessionViewModel::open);
    connect(&session, &SessionViewModel::changed, this, [card] { take(card); });
    take(card);
    into.addWidget(facts);
    if (session.state() == SessionViewModel::State::Closed) session.open();
}

void SessionsPage::take(const Card& card) {
    card.facts->setRows(card.session->facts());
    card.state->setText(stateText(*card.session));
    card.open->setEnabled(card.session->state() != SessionViewModel::State::Opening);
    card.open->setText(card.session->state() == SessionViewModel::State::Open
                           ? QStringLiteral("Ask again")
                           : QStringLiteral("Open"));
}

}  // namespace piper::ui
