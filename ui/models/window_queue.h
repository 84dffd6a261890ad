// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <deque>
#include <functional>
#include <mutex>

namespace piper::ui {

/// Work that any thread hands to the window's thread, where it runs in order, one piece an event.
/// Made and destroyed on the window's thread; what still waits then is dropped.
///
/// The work passes under a mutex of ours and Qt only carries the wake-up: what a queued functor
/// does inside Qt cannot be seen by the thread sanitizer, and would read as a race.
class WindowQueue : public QObject {
    Q_OBJECT
public:
    using Work = std::function<void()>;

    explicit WindowQueue(QObject* parent = nullptr) : QObject(parent) {}

    void post(Work work);

private:
    Q_INVOKABLE void runNext();

    std::mutex m_mutex;
    std::deque<Work> m_waiting;
};

}  // namespace piper::ui
