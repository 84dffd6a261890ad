// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/models/file_io.h"

#include <QFile>
#include <QSaveFile>

namespace piper::ui {
namespace {

constexpr qint64 kLargestTextFile = 64 << 20;

Error cannotWrite(const QSaveFile& file) {
    return fail(ErrorCode::Io, "cannot write {}: {}", file.fileName().toStdString(),
                file.errorString().toStdString());
}

}  // namespace

Result<std::string> readFileText(const QString& path) {
    QFile file(path);
    if (!file.open(QIODevice::ReadOnly))
        return fail(ErrorCode::Io, "cannot read {}: {}", path.toStdString(),
                    file.errorString().toStdString());
    if (file.size() > kLargestTextFile)
        return fail(ErrorCode::InvalidInput, "{} has {} bytes; a text file of ours has at most {}",
                    path.toStdString(), file.size(), kLargestTextFile);
    return file.readAll().toStdString();
}

Status writeFile(const QString& path, std::string_view content, bool executable) {
    QSaveFile out(path);
    const auto size = static_cast<qint64>(content.size());
    if (!out.open(QIODevice::WriteOnly) || out.write(content.data(), size) != size)
        return cannotWrite(out);
    if (executable)
        out.setPermissions(out.permissions() | QFile::ExeOwner | QFile::ExeUser | QFile::ExeGroup);
    if (!out.commit()) return cannotWrite(out);
    return {};
}

}  // namespace piper::ui
