// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <functional>
#include <memory>
#include <vector>

#include "sessions/connection.h"
#include "ui/models/executor.h"
#include "ui/models/model_card.h"

namespace piper::ui {

/// What a host said of itself, in the order of the page. A fact that could not be had says why.
struct HostFacts {
    std::vector<CardRow> rows;
};

/// Asks a host, local or remote; blocks, so for the executor only.
[[nodiscard]] HostFacts readHostFacts(Connection& connection, const std::stop_token& stop);

/// One session behind sessions/connection.h.
class SessionViewModel : public QObject {
    Q_OBJECT
public:
    enum class State { Closed, Opening, Open, Failed };
    /// Opens the connection; called on the executor.
    using Opener = std::function<Result<std::shared_ptr<Connection>>()>;

    SessionViewModel(Executor& executor, QString name, Opener opener, QObject* parent = nullptr);

    [[nodiscard]] const QString& name() const { return m_name; }
    [[nodiscard]] State state() const { return m_state; }
    [[nodiscard]] const QString& fault() const { return m_fault; }
    [[nodiscard]] const std::vector<CardRow>& facts() const { return m_facts.rows; }
    [[nodiscard]] std::shared_ptr<Connection> connection() const { return m_connection; }

public Q_SLOTS:
    void open();

Q_SIGNALS:
    void changed();

private:
    Executor& m_executor;
    QString m_name;
    Opener m_opener;
    State m_state = State::Closed;
    QString m_fault;
    HostFacts m_facts;
    std::shared_ptr<Connection> m_connection;
};

}  // namespace piper::ui
