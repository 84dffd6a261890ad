// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/preferences.h"

#include <QDir>
#include <QFileInfo>

#include "core/base/json.h"
#include "ui/models/file_io.h"
#include "ui/models/text_format.h"

namespace piper::ui {
namespace {

constexpr int kVersion = 1;

Result<std::map<QString, QString>> readValues(const QString& path) {
    const std::string where = path.toStdString();
    PIPER_ASSIGN(const std::string content, readFileText(path));
    PIPER_ASSIGN(const Json json, parseJson(content, where));
    if (!json.is_object() || json.value("format_version", Json()) != kVersion ||
        !json.contains("values") || !json["values"].is_object())
        return fail(ErrorCode::InvalidInput,
                    "{} is no file of remembered settings of format {}; it is written anew", where,
                    kVersion);
    std::map<QString, QString> out;
    for (const auto& [name, value] : json["values"].items()) {
        if (!value.is_string())
            return fail(ErrorCode::InvalidInput, "{}: values.{} is no text; all are forgotten",
                        where, name);
        out[text(name)] = text(value.get<std::string>());
    }
    return out;
}

Status writeValues(const QString& path, const std::map<QString, QString>& values) {
    Json json = {{"format_version", kVersion}, {"values", Json::object()}};
    for (const auto& [name, value] : values)
        json["values"][name.toStdString()] = value.toStdString();
    QDir().mkpath(QFileInfo(path).absolutePath());
    return writeFile(path, json.dump(2) + "\n");
}

}  // namespace

Preferences::Preferences(Executor& executor, QString path, QObject* parent)
    : QObject(parent), m_executor(executor), m_path(std::move(path)) {}

Status Preferences::load() {
    if (m_path.isEmpty() || !QFileInfo::exists(m_path)) return {};
    PIPER_ASSIGN(m_values, readValues(m_path));
    return {};
}

QString Preferences::value(const QString& name, const QString& otherwise) const {
    const auto found = m_values.find(name);
    return found == m_values.end() ? otherwise : found->second;
}

void Preferences::set(const QString& name, const QString& value) {
    if (holds(name) && m_values[name] == value) return;
    m_values[name] = value;
    save();
}

void Preferences::remove(const QString& name) {
    if (m_values.erase(name) > 0) save();
}

void Preferences::save() {
    if (m_path.isEmpty()) return;
    m_executor.submit(
        QStringLiteral("save-preferences"), Executor::Lane::Background,
        [path = m_path, values = m_values, this](const Executor::Context&) -> Executor::OnWindow {
            const Status status = writeValues(path, values);
            return [said = status.ok() ? QString() : errorText(status.error()), this] {
                if (!said.isEmpty()) Q_EMIT failed(said);
            };
        });
}

}  // namespace piper::ui
