// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/sessions_view_model.h"

#include <algorithm>

#include "ui/models/text_format.h"

namespace piper::ui {

SessionsViewModel::SessionsViewModel(Executor& executor, SessionStore store, QObject* parent)
    : QObject(parent), m_executor(executor), m_store(std::move(store)) {
    SessionConfig local;
    local.name = "local";
    m_current = append(std::move(local));
}

SessionsViewModel::~SessionsViewModel() = default;

SessionViewModel* SessionsViewModel::append(SessionConfig config) {
    auto session = std::make_unique<SessionViewModel>(m_executor, m_prompts, std::move(config));
    connect(session.get(), &SessionViewModel::changed, this, &SessionsViewModel::changed);
    connect(session.get(), &SessionViewModel::opened, this,
            [this, name = session->name()] { Q_EMIT opened(name); });
    m_sessions.push_back(std::move(session));
    return m_sessions.back().get();
}

SessionViewModel* SessionsViewModel::find(const QString& name) const {
    const auto found = std::find_if(m_sessions.begin(), m_sessions.end(),
                                    [&](const auto& s) { return s->name() == name; });
    return found == m_sessions.end() ? nullptr : found->get();
}

QString SessionsViewModel::dump() const {
    QString out;
    for (const auto& session : m_sessions)
        out += (session.get() == m_current ? QStringLiteral("* ") : QStringLiteral("  ")) +
               session->dump();
    return out;
}

void SessionsViewModel::select(const QString& name) {
    SessionViewModel* session = find(name);
    if (session == nullptr || session == m_current) return;
    m_current = session;
    Q_EMIT currentChanged();
}

void SessionsViewModel::setFault(const QString& message) {
    m_fault = message;
    Q_EMIT changed();
}

void SessionsViewModel::load() {
    m_executor.submit(QStringLiteral("sessions"), Executor::Lane::Background,
                      [store = m_store, this](const Executor::Context&) -> Executor::OnWindow {
                          return [configs = store.list(), this] {
                              setFault(configs.ok() ? QString() : errorText(configs.error()));
                              if (configs.ok()) take(*configs);
                          };
                      });
}

/// Keeps what is open already; adds what is new.
void SessionsViewModel::take(const std::vector<SessionConfig>& configs) {
    for (const SessionConfig& config : configs)
        if (find(text(config.name)) == nullptr) append(config);
    Q_EMIT listChanged();
}

void SessionsViewModel::add(const SessionConfig& config) {
    m_executor.submit(QStringLiteral("sessions.add"), Executor::Lane::Background,
                      [store = m_store, config, this](const Executor::Context&) {
                          return [status = store.add(config), config, this] {
                              if (!status.ok()) {
                                  Q_EMIT addFailed(errorText(status.error()));
                                  return;
                              }
                              append(config);
                              Q_EMIT listChanged();
                              select(text(config.name));
                              Q_EMIT added(text(config.name));
                          };
                      });
}

void SessionsViewModel::forget(const QString& name) {
    m_executor.submit(QStringLiteral("sessions.forget:") + name, Executor::Lane::Background,
                      [store = m_store, name, this](const Executor::Context&) {
                          return [status = store.forget(name.toStdString()), name, this] {
                              setFault(status.ok() ? QString() : errorText(status.error()));
                              if (status.ok()) remove(name);
                          };
                      });
}

void SessionsViewModel::remove(const QString& name) {
    const auto at = std::find_if(m_sessions.begin(), m_sessions.end(),
                                 [&](const auto& s) { return s->name() == name; });
    if (at == m_sessions.end()) return;
    const std::unique_ptr<SessionViewModel> gone = std::move(*at);
    m_sessions.erase(at);
    const bool was_current = m_current == gone.get();
    if (was_current) m_current = m_sessions.front().get();
    Q_EMIT listChanged();
    if (was_current) Q_EMIT currentChanged();
}

}  // namespace piper::ui
