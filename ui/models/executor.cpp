// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/executor.h"

#include <algorithm>
#include <utility>

namespace piper::ui {

void ManualExecutor::submit(const QString& topic, Lane, Work work) {
    cancel(topic);
    m_waiting.push_back({topic, m_revision[topic], std::move(work)});
}

void ManualExecutor::cancel(const QString& topic) {
    ++m_revision[topic];
    m_stop[topic].request_stop();
    m_stop[topic] = {};
    std::erase_if(m_waiting, [&](const Request& r) { return r.topic == topic; });
}

bool ManualExecutor::runOne(const std::function<void()>& before_delivery) {
    if (m_waiting.empty()) return false;
    const Request request = std::move(m_waiting.front());
    m_waiting.pop_front();
    const auto current = [&] { return m_revision[request.topic] == request.revision; };
    const Context context{m_stop[request.topic].get_token(), [&](const OnWindow& done) {
                              if (done && current()) done();
                          }};
    const OnWindow done = request.work(context);
    if (before_delivery) before_delivery();
    if (done && current()) done();
    return true;
}

void ManualExecutor::runAll() {
    while (runOne()) {
    }
}

}  // namespace piper::ui
