// SPDX-License-Identifier: GPL-3.0-or-later
#include "ui/views/launch_preview.h"

#include <QDialogButtonBox>
#include <QFontDatabase>
#include <QPlainTextEdit>
#include <QPushButton>
#include <QVBoxLayout>

#include "ui/models/text_format.h"
#include "ui/views/widgets.h"

namespace piper::ui {
namespace {

constexpr QSize kSize{860, 600};

QPlainTextEdit* addText(QVBoxLayout& into, const QString& title, const char* name,
                        const QString& content, QWidget* parent) {
    into.addWidget(makeLabel(title, "section", parent));
    auto* edit = new QPlainTextEdit(content, parent);
    edit->setObjectName(QString::fromLatin1(name));
    edit->setAccessibleName(title);
    edit->setReadOnly(true);
    edit->setTabChangesFocus(true);
    edit->setFont(QFontDatabase::systemFont(QFontDatabase::FixedFont));
    into.addWidget(edit);
    return edit;
}

QString lines(const std::vector<std::string>& all) {
    QStringList out;
    for (const std::string& line : all) out << text(line);
    return out.join(u'\n');
}

}  // namespace

LaunchPreviewDialog::LaunchPreviewDialog(const RunPreview& preview, QWidget* parent)
    : QDialog(parent) {
    setObjectName(QStringLiteral("preview"));
    setWindowTitle(QStringLiteral("What will be launched"));
    resize(kSize);
    auto* layout = new QVBoxLayout(this);
    layout->setSpacing(6);
    auto* warnings = makeLabel(
        preview.fault.isEmpty() ? lines(preview.launch.warnings) : preview.fault, "section", this);
    warnings->setObjectName(QStringLiteral("preview.warnings"));
    warnings->setTextFormat(Qt::PlainText);
    warnings->setWordWrap(true);
    warnings->setVisible(!warnings->text().isEmpty());
    layout->addWidget(warnings);
    auto* buttons = new QDialogButtonBox(QDialogButtonBox::Close, this);
    connect(buttons, &QDialogButtonBox::rejected, this, &QDialog::reject);
    if (preview.fault.isEmpty()) {
        QStringList command;
        for (const std::string& word : preview.launch.command) command << text(word);
        addText(*layout, QStringLiteral("Command"), "preview.command", command.join(u' '), this)
            ->setMaximumHeight(110);
        addText(*layout, QStringLiteral("Script, in %1").arg(preview.request.job_directory),
                "preview.script", text(preview.launch.script), this);
        addText(*layout, QStringLiteral("Ranks"), "preview.ranks", lines(preview.launch.rank_map),
                this)
            ->setMaximumHeight(110);
        auto* run = buttons->addButton(QStringLiteral("&Run this"), QDialogButtonBox::AcceptRole);
        run->setObjectName(QStringLiteral("preview.run"));
        connect(buttons, &QDialogButtonBox::accepted, this, &QDialog::accept);
    }
    layout->addWidget(buttons);
}

}  // namespace piper::ui
