// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <QObject>
#include <QString>
#include <map>

#include "core/base/result.h"
#include "ui/models/executor.h"

namespace piper::ui {

/// What the window remembers from one start to the next: texts under names in one JSON file. Read
/// once, before there is a window; written on the executor.
class Preferences : public QObject {
    Q_OBJECT
public:
    /// Without a path nothing outlives the program.
    Preferences(Executor& executor, QString path, QObject* parent = nullptr);

    /// A file that is not there is an empty one. Errors: Io; InvalidInput names what cannot be
    /// read. Then nothing is remembered and the next change writes the file anew.
    [[nodiscard]] Status load();
    [[nodiscard]] QString value(const QString& name, const QString& otherwise = {}) const;
    [[nodiscard]] bool holds(const QString& name) const { return m_values.contains(name); }
    void set(const QString& name, const QString& value);
    void remove(const QString& name);

Q_SIGNALS:
    void failed(const QString& message);

private:
    void save();

    Executor& m_executor;
    QString m_path;
    std::map<QString, QString> m_values;
};

}  // namespace piper::ui
