// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QWidget>

#include "ui/models/workbench.h"

class QBoxLayout;
class QLabel;
class QPushButton;

namespace piper::ui {

class FactCard;

/// The hosts plans run on: this machine now, SSH hosts behind the same interface.
class SessionsPage : public QWidget {
    Q_OBJECT
public:
    explicit SessionsPage(Workbench& workbench, QWidget* parent = nullptr);

private:
    struct Card {
        SessionViewModel* session;
        FactCard* facts;
        QLabel* state;
        QPushButton* open;
    };
    void addSession(SessionViewModel& session, QBoxLayout& into);
    static void take(const Card& card);
};

}  // namespace piper::ui
