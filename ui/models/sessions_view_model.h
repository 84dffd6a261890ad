// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <memory>
#include <vector>

#include "ui/models/session_view_model.h"

namespace piper::ui {

/// The sessions of the store, this machine first, and the one that is chosen.
class SessionsViewModel : public QObject {
    Q_OBJECT
public:
    SessionsViewModel(Executor& executor, SessionStore store, QObject* parent = nullptr);
    ~SessionsViewModel() override;

    [[nodiscard]] PromptBoard& prompts() { return m_prompts; }
    [[nodiscard]] const std::vector<std::unique_ptr<SessionViewModel>>& all() const {
        return m_sessions;
    }
    [[nodiscard]] SessionViewModel& local() const { return *m_sessions.front(); }
    /// Null for an unknown name.
    [[nodiscard]] SessionViewModel* find(const QString& name) const;
    /// Where runs go.
    [[nodiscard]] SessionViewModel& current() const { return *m_current; }
    /// Why the store could not be read or written, empty without a fault.
    [[nodiscard]] const QString& fault() const { return m_fault; }
    /// Every session as text, the chosen one marked.
    [[nodiscard]] QString dump() const;

    void select(const QString& name);
    /// Reads the store again.
    void load();
    /// Stores a new session and chooses it; added() or addFailed() follows.
    void add(const SessionConfig& config);
    /// Lets go of its connection and takes it out of the store; nothing on the host is touched.
    void forget(const QString& name);

Q_SIGNALS:
    void listChanged();
    void currentChanged();  ///< another one is chosen
    void changed();         ///< something of one of them, or fault()
    void opened(const QString& name);
    void added(const QString& name);
    void addFailed(const QString& message);

private:
    SessionViewModel* append(SessionConfig config);
    void take(const std::vector<SessionConfig>& configs);
    void remove(const QString& name);
    void setFault(const QString& message);

    Executor& m_executor;
    SessionStore m_store;
    PromptBoard m_prompts;
    std::vector<std::unique_ptr<SessionViewModel>> m_sessions;
    SessionViewModel* m_current = nullptr;
    QString m_fault;
};

}  // namespace piper::ui
