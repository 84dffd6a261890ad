// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <span>

#include "ui/models/preferences.h"

namespace piper::ui {

/// One step of the tour: a page, what it is for, and what to try there.
struct TourStep {
    const char* page;  ///< as on the command line
    const char* title;
    const char* text;
    const char* section;  ///< of the action that shows it; empty without one
    const char* action;
};
[[nodiscard]] std::span<const TourStep> tourSteps();

/// Where the tour is. That it was seen is remembered, so that it comes by itself only once.
class Tour : public QObject {
    Q_OBJECT
public:
    explicit Tour(Preferences& preferences, QObject* parent = nullptr);

    [[nodiscard]] bool seen() const;
    [[nodiscard]] bool running() const { return m_at >= 0; }
    /// From 0; only while it runs.
    [[nodiscard]] int at() const { return m_at; }
    [[nodiscard]] const TourStep& step() const;

public Q_SLOTS:
    void start();
    /// After the last step it ends.
    void next();
    void back();
    void end();

Q_SIGNALS:
    void changed();

private:
    void go(int to);

    Preferences& m_preferences;
    int m_at = -1;
};

}  // namespace piper::ui
